"""Creates a new app: a package that runs as it is, its test, and nothing that has to be registered."""
