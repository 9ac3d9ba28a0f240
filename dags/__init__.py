"""DAG files of the project. Airflow runs them beside those of the provider."""
