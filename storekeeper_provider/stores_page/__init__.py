"""The page *Stores* in Airflow's UI: what the control API says of the platform."""
