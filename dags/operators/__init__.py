"""What the DAGs do: operators, and the rules and clients that they stand on. Imports neither Spark nor RocksDB."""
