"""The apps of the project, one a file."""
