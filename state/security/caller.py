"""The caller of a request and its deadline, available to all code that runs after the guard."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass
from enum import StrEnum


class Role(StrEnum):
    """What a caller may do."""

    READER = "reader"
    """Read stores, and everything that a monitor may."""
    MONITOR = "monitor"
    """Health, metrics, and the lists of nodes and stores; no rows."""


@dataclass(frozen=True, slots=True)
class Caller:
    """An authenticated caller. `stores` are those that it may read, None for all."""

    name: str
    roles: frozenset[Role]
    stores: frozenset[str] | None = None

    @property
    def reads_all(self) -> bool:
        """Whether it may read every store."""
        return Role.READER in self.roles and self.stores is None

    def may_read(self, store: str) -> bool:
        """Whether it may read a store's rows."""
        return Role.READER in self.roles and (self.stores is None or store in self.stores)


@dataclass(frozen=True, slots=True)
class RequestContext:
    """One request under way.

    Attributes:
        caller: who asks; None on a node without authentication.
        deadline_s: when its answer must be there, on the monotonic clock; None if the caller gave none.
    """

    caller: Caller | None
    deadline_s: float | None


current_request: ContextVar[RequestContext | None] = ContextVar("current_request", default=None)
"""The request that the running task works for. None outside one, and where neither caller nor deadline is known."""
