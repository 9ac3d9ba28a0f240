"""Clients of the nodes: `StateClient` for programs that block, `AsyncStateClient` for those that await."""

from storekeeper.client.async_client import AsyncStateClient
from storekeeper.client.client import StateClient
from storekeeper.client.credentials import AccessDeniedError, Credentials
from storekeeper.client.exchange import ClientLimits
from storekeeper.client.readings import (
    Listing,
    NodeLag,
    Page,
    Rank,
    RankedRow,
    Reading,
    Row,
    SessionRow,
    VersionRow,
    WindowedRow,
)
from storekeeper.protocol.too_stale import Freshest, TooStaleError

__all__ = [
    "AccessDeniedError",
    "AsyncStateClient",
    "ClientLimits",
    "Credentials",
    "Freshest",
    "Listing",
    "NodeLag",
    "Page",
    "Rank",
    "RankedRow",
    "Reading",
    "Row",
    "SessionRow",
    "StateClient",
    "TooStaleError",
    "VersionRow",
    "WindowedRow",
]
