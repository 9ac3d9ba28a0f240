"""The operators of a topology: one module for each kind of work."""
