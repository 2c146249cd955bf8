"""How are the constants found, and how do they do on rows that were left out? Needs the extra `fit`."""
