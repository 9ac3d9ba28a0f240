"""Errors that only a client raises. The others are in `state/errors.py`.

ConfigurationError
└── AccessDeniedError       the nodes refuse the credentials
StoreUnavailableError
└── TooStaleError           no replica is as fresh as demanded (retriable)
"""

from __future__ import annotations

from dataclasses import dataclass

from state.errors import ConfigurationError, StoreUnavailableError


class AccessDeniedError(ConfigurationError):
    """The nodes refuse the credentials, or their rights don't cover the question. Use others."""


@dataclass(frozen=True, slots=True)
class Freshest:
    """The freshest replica that a node has found. None: unknown."""

    node: str
    role: str
    offset_lag: int | None
    staleness_ms: int | None


class TooStaleError(StoreUnavailableError):
    """No replica is as fresh as the question demands. Ask for less, wait longer (`wait_ms`), or ask again later.

    Attributes:
        freshest: the freshest replica; None if the node named none.
    """

    def __init__(self, message: str, freshest: Freshest | None) -> None:
        super().__init__(message)
        self.freshest = freshest
