"""What the apps declare, what runs, and the plan between the two: `python -m spark_apps.planning`. Free of Spark."""
