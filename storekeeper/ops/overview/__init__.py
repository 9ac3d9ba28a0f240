"""The platform at one glance: apps, stores, nodes, snapshots and verdicts; for a terminal and for Airflow's page."""
