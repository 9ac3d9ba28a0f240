"""The platform around the library: broker, supervisor, Airflow, the command line and the demo."""
