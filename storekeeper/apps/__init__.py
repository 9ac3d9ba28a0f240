"""Spark Structured Streaming apps: one package per app, and the code that they share."""
