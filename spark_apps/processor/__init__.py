"""Apps with state per key, in the terms of Kafka Streams' Processor API: pure Python, run by Spark or by a test."""
