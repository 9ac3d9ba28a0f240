"""Declared stores, running stores, and the plan between them. Free of Spark."""
