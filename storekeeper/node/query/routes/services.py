"""The services that the routes of a node use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from storekeeper.node.cluster.catalog import Catalog
from storekeeper.node.query.observing.metrics import Scrapes
from storekeeper.node.query.reads.as_of import PastReads
from storekeeper.node.query.reads.gather import Gatherer
from storekeeper.node.query.reads.pages import CursorCodec, QueryLimits
from storekeeper.node.query.reads.point import PointQueries
from storekeeper.node.query.reads.streams import Streams


@dataclass(frozen=True, slots=True)
class QueryServices:
    """Everything that a route may need. `following` returns whether the follower's thread is alive or yet to start."""

    catalog: Catalog
    point: PointQueries
    gatherer: Gatherer
    past: PastReads
    streams: Streams
    cursors: CursorCodec
    scrapes: Scrapes
    limits: QueryLimits
    backend: str
    following: Callable[[], bool]
