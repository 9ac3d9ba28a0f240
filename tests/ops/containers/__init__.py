"""The compose file and what it needs."""
