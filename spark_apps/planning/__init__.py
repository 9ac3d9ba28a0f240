"""Declared stores, running stores, and the plan between them: `python -m spark_apps.planning`. Free of Spark."""
