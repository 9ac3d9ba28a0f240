"""Entries of the tables in the catalogue of the user's own Spark."""
