"""Looking after the apps' stores, without Spark: clean-ups, verification, and the upkeep of Delta tables."""
