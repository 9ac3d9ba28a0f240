"""Metrics of the stream apps, the snapshots and the quality gate for Prometheus, read from their files.

A separate process serves them. So no stream depends on monitoring, and the metrics of a dead app stay available.
"""
