"""What Airflow's UI gets from us: the page "Stores"."""
