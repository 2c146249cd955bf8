"""Rows of measurements and of whole runs as arrays, and what the model says of each."""
