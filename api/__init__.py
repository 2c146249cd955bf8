"""HTTP: the planner as a service, spreadsheet endpoints and the web page."""
