"""Looking after the apps' stores, without Spark: clean-ups, verification, growth, and the upkeep of Delta tables."""
