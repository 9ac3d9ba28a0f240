"""What the tables of the project must be, one a file."""
