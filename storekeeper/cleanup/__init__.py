"""Maintenance of stores: deleting expired rows and restoring them, proving that copies agree."""
