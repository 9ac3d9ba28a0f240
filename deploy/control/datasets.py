"""The names of topics and tables by OpenLineage's rules, so that its graphs join ours with those of other tools.

See https://openlineage.io/docs/spec/naming. A namespace is where something is, such as a broker or a bucket.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from state.locations import Location

_OF_OBJECTS = {"s3": "s3", "s3a": "s3", "gs": "gs"}
"""Stores of objects, whose names are keys without a leading slash, and the scheme that OpenLineage gives them."""


class Dataset(NamedTuple):
    """A topic or a table."""

    namespace: str
    name: str


def topic_dataset(bootstrap: str, topic: str) -> Dataset:
    """A topic. OpenLineage names a cluster after the first of its brokers."""
    return Dataset(f"kafka://{bootstrap.partition(',')[0].strip()}", topic)


def table_dataset(place: Location) -> Dataset:
    """A Delta table at a path."""
    if isinstance(place, Path):
        return Dataset("file", str(place))
    parts = urlsplit(place.uri)
    if parts.scheme in _OF_OBJECTS:
        return Dataset(f"{_OF_OBJECTS[parts.scheme]}://{parts.netloc}", parts.path.strip("/"))
    return Dataset(f"{parts.scheme}://{parts.netloc}", parts.path)
