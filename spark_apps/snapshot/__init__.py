"""Snapshots of stores as Delta tables: folds of the changelog up to the end of a committed batch."""
