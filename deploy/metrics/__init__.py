"""Metrics of the stream apps, the snapshots and the quality gate for Prometheus, read from what they leave in files.

A process of its own serves them. So no stream depends on being watched, and the metrics of one that died stay there.
"""
