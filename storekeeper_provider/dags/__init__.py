"""Our DAG files, each of which imports Airflow and the provider alone. `storekeeper export-dags` copies them."""
