"""Operators of the project's own, which several apps use."""
