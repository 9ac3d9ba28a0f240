"""Kafka as all clients see it: where it is, how to reach it, and who may do what."""
