"""Clients of the nodes: `StateClient` for programs that block, `AsyncStateClient` for those that await."""

from state.client.async_client import AsyncStateClient
from state.client.client import StateClient
from state.client.credentials import Credentials
from state.client.errors import AccessDeniedError, Freshest, TooStaleError
from state.client.limits import ClientLimits
from state.client.readings import NodeLag, Page, Rank, RankedRow, Reading, Row, SessionRow, WindowedRow

__all__ = [
    "AccessDeniedError",
    "AsyncStateClient",
    "ClientLimits",
    "Credentials",
    "Freshest",
    "NodeLag",
    "Page",
    "Rank",
    "RankedRow",
    "Reading",
    "Row",
    "SessionRow",
    "StateClient",
    "TooStaleError",
    "WindowedRow",
]
