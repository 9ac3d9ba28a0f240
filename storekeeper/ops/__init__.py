"""The platform around the library: broker, supervisor, Airflow and the command line."""
