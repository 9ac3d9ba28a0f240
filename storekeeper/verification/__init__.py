"""Proves that the copies of a store agree: changelog, snapshot, nodes and local stores."""
