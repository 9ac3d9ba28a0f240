"""Shared by nodes and clients: how fresh an answer must be, positions, and how keys are written."""
