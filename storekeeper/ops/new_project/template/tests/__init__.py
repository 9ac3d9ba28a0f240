"""The tests that a new app begins with."""
