"""A node's health, metrics and topology."""
