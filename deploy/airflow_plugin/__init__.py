"""Our page "Stores" in Airflow's UI."""
