"""The jars that the platform adds to those of PySpark."""
