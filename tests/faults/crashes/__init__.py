"""Killing the three apps of the point of sale over and over, and recomputing what they must have written."""
