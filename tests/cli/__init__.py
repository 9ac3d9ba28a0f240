"""The command line of the state library."""
