"""Airflow DAGs, their operators and the plugin."""
