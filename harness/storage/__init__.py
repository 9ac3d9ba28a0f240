"""Stores of Delta tables for tests: HDFS and an S3 server, as processes. `make setup-storage` fetches them."""
