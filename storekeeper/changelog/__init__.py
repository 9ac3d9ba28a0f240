"""Changelogs: one compacted topic per store, its records, its positions, and how a store is restored from it."""
