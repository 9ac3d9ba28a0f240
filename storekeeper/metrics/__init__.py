"""Metrics: one table of names, recorders that are cheap enough for hot paths, and the Prometheus collector."""
