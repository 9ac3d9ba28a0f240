"""The services that the routes of a node use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from state.cluster.catalog import Catalog
from state.query.observing.metrics import Scrapes
from state.query.reads.gather import Gatherer
from state.query.reads.pages import CursorCodec, QueryLimits
from state.query.reads.point import PointQueries
from state.query.reads.streams import Streams


@dataclass(frozen=True, slots=True)
class QueryServices:
    """Everything that a route may need. `following` returns whether the follower's thread is alive or yet to start."""

    catalog: Catalog
    point: PointQueries
    gatherer: Gatherer
    streams: Streams
    cursors: CursorCodec
    scrapes: Scrapes
    limits: QueryLimits
    backend: str
    following: Callable[[], bool]
