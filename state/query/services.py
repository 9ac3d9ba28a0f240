"""The services that the routes of a node use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from state.query.catalog import Catalog
from state.query.cursor import CursorCodec
from state.query.gather import Gatherer
from state.query.point import PointQueries
from state.query.ranked import RankedQueries
from state.query.scans import ScanQueries
from state.query.scrapes import Scrapes
from state.query.streams import Streams


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of a request."""

    max_key_bytes: int
    max_body_bytes: int
    max_page_rows: int
    max_page_bytes: int
    max_examined_rows: int


@dataclass(frozen=True, slots=True)
class QueryServices:
    """Everything that a route may need. `following` returns whether the follower's thread is alive or yet to start."""

    catalog: Catalog
    point: PointQueries
    gatherer: Gatherer
    scans: ScanQueries
    ranked: RankedQueries
    streams: Streams
    cursors: CursorCodec
    scrapes: Scrapes
    limits: QueryLimits
    backend: str
    following: Callable[[], bool]
