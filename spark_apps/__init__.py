"""Spark Structured Streaming apps: one package an app, and the rim that they share."""
