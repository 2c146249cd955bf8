"""Where prices come from: one file a source, each with the same two functions, no checks inside."""
