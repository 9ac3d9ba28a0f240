"""Killing the apps of the tills over and over, and recomputing what they must have written."""
