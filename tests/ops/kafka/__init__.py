"""Tests of how Kafka is reached."""
