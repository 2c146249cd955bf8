"""The routes, one file per question."""
