"""What the tables of the project must be: a suite a table, which the quality gate checks."""
