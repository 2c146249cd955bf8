"""The web page: its state in the URL, the answer as a page of HTML, drawings computed on the server."""
