"""The DAG files of the project."""
