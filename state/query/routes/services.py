"""The services that the routes of a node use."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from state.cluster.catalog import Catalog
from state.query.observing.metrics import Scrapes
from state.query.reads.gather import Gatherer
from state.query.reads.many import ManyQueries
from state.query.reads.pages import CursorCodec
from state.query.reads.point import PointQueries
from state.query.reads.streams import Streams


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """Limits of a request.

    Attributes:
        max_key_bytes: the longest key that a query may name.
        max_page_rows: the most rows of one page.
        max_page_bytes: the most bytes of values in one page.
        max_examined_rows: the most rows that one page of a search by time looks at, on each node.
    """

    max_key_bytes: int = 65_536
    max_page_rows: int = 1000
    max_page_bytes: int = 4 << 20
    max_examined_rows: int = 20_000


@dataclass(frozen=True, slots=True)
class QueryServices:
    """Everything that a route may need. `following` returns whether the follower's thread is alive or yet to start."""

    catalog: Catalog
    point: PointQueries
    many: ManyQueries
    gatherer: Gatherer
    streams: Streams
    cursors: CursorCodec
    scrapes: Scrapes
    limits: QueryLimits
    backend: str
    following: Callable[[], bool]
