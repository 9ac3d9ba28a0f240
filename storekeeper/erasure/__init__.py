"""Erasing keys for good: from the changelog, the tables, and all copies, with a certificate."""
