"""App `hadoop_export`: masked line items from `hadoop-sink` into a Delta table, each exactly once."""
