"""Replicas: store partitions that follow their changelogs and answer reads. Every one is a follower; Spark writes."""
