"""Clients of the nodes: `StateClient` for programs that block, `AsyncStateClient` for those that await."""

from state.client.async_client import AsyncStateClient
from state.client.client import StateClient
from state.client.credentials import AccessDeniedError, Credentials
from state.client.exchange import ClientLimits
from state.client.readings import (
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
from state.protocol.too_stale import Freshest, TooStaleError

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
