"""Snapshots of stores as Delta tables: manifests, digests, and SQL over them."""
