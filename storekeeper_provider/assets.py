"""Tables and topics as assets, by URIs that other DAGs can name, too."""

from __future__ import annotations

from airflow.sdk import Asset


def delta_table(name: str) -> Asset:
    """A Delta table of the platform: `delta://storekeeper/NAME`."""
    return Asset(f"delta_{name}", uri=f"delta://storekeeper/{name}", group="delta")


def kafka_topic(name: str) -> Asset:
    """A topic of the platform's Kafka: `kafka://storekeeper/NAME`."""
    return Asset(f"kafka_{name}", uri=f"kafka://storekeeper/{name}", group="kafka")
