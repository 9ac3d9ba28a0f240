"""The error for a requirement that no replica meets. It names the freshest replica."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import orjson

from storekeeper.errors import StoreUnavailableError
from storekeeper.protocol.position_token import PositionToken
from storekeeper.protocol.replica_freshness import ReplicaFreshness

_MAX_TOLD_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class Freshest:
    """The freshest known replica.

    Attributes:
        node: the node that holds it.
        role: `active` or `standby`.
        offset_lag: how many records it lacks at most; None if unknown.
        staleness_ms: its age at most; None if unknown.
        position: the token of the position that it shows.
    """

    node: str
    role: str
    offset_lag: int | None
    staleness_ms: int | None
    position: str

    @classmethod
    def of(cls, node: str, replica: ReplicaFreshness) -> Freshest:
        """From a replica of this node."""
        token = PositionToken.of_changelog(replica.topic, replica.partition, replica.offset)
        return cls(node, replica.role.value, replica.offset_lag, replica.staleness_ms, token.encode())

    @classmethod
    def in_refusal(cls, body: bytes) -> Freshest | None:
        """The replica that the body of another node's refusal names; None if it names none."""
        if len(body) > _MAX_TOLD_BYTES:
            return None
        try:
            fields = orjson.loads(body)["freshest"]
            return cls(
                str(fields["node"]),
                str(fields["role"]),
                _count(fields["offset_lag"]),
                _count(fields["staleness_ms"]),
                str(fields["position"]),
            )
        except (ValueError, TypeError, KeyError):
            return None


class TooStaleError(StoreUnavailableError):
    """No replica is as fresh as the caller requires. Ask for less, or wait longer.

    Attributes:
        freshest: the freshest replica; None if none is known.
    """

    def __init__(self, message: str, freshest: Freshest | None) -> None:
        super().__init__(message)
        self.freshest = freshest

    def details(self) -> dict[str, object]:
        """The fields of the problem document besides its message."""
        return {"freshest": None if self.freshest is None else asdict(self.freshest)}


def freshest(known: Iterable[Freshest | None]) -> Freshest | None:
    """The one with the least staleness, then the least lag; unknown values count as infinite."""
    found = [one for one in known if one is not None]
    return min(found, key=lambda one: (_or_endless(one.staleness_ms), _or_endless(one.offset_lag)), default=None)


def _or_endless(number: int | None) -> float:
    return float("inf") if number is None else number


def _count(number: object) -> int | None:
    if number is None or (type(number) is int and number >= 0):
        return number
    raise TypeError("not a count")
