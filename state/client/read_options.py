"""How fresh an answer must be, as arguments of every read."""

from __future__ import annotations

from typing import Literal, TypedDict

from state.errors import InvalidArgumentError
from state.protocol.freshness import FreshnessRequirement, Stale
from state.protocol.position_token import PositionToken


class ReadOptions(TypedDict, total=False):
    """Arguments that every read takes.

    Attributes:
        max_staleness_ms: the answer includes all that was in the changelog that long before the question.
        max_lag: at most this many changelog records are missing from it.
        position: a token, from an answer's `position`: this answer includes all that the earlier one did.
        wait_ms: how long to wait for a replica to become as fresh; `TooStaleError` after that. 0 by default.
        stale: `ok` also lets restoring replicas answer; `no` only active ones.
        snapshot: lets the last verified snapshot answer when no replica can.
        partial: leaves out partitions that can't answer now; `complete` says so.
        timeout_s: instead of the client's.
    """

    max_staleness_ms: int
    max_lag: int
    position: str
    wait_ms: int
    stale: Literal["ok", "no"]
    snapshot: bool
    partial: bool
    timeout_s: float


def requirement_of(options: ReadOptions) -> FreshnessRequirement:
    """The freshness that they require, as nodes understand it.

    Raises:
        InvalidArgumentError: if one can't be met by any answer.
    """
    for name, number in options.items():
        if isinstance(number, int | float) and number < 0:
            msg = f"{name} can't be negative"
            raise InvalidArgumentError(msg)
    return FreshnessRequirement(
        max_staleness_ms=options.get("max_staleness_ms"),
        max_lag=options.get("max_lag"),
        position=PositionToken.parse(options["position"]) if "position" in options else None,
        wait_ms=options.get("wait_ms", 0),
        stale=Stale(options.get("stale", "")),
        snapshot_ok=options.get("snapshot", False),
        partial_ok=options.get("partial", False),
    )
