"""How fast replicas catch up, from repeated looks at their lag: what is left, and the time to go. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

_SMOOTHING = 0.3

ReplicaKey = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Progress:
    """One replica that has not caught up.

    Attributes:
        done: from 0 to 1, relative to the largest number of missing records seen.
        left: records that are missing.
        eta_s: seconds until it has caught up; None if it isn't getting closer.
    """

    done: float
    left: int
    eta_s: float | None


@dataclass(slots=True)
class _Seen:
    at_s: float
    left: int
    most: int
    per_s: float | None = None


class RestorePace:
    """Takes one look after the other."""

    def __init__(self) -> None:
        self._seen: dict[ReplicaKey, _Seen] = {}

    def look(self, replicas: Iterable[Mapping[str, Any]], at_s: float) -> dict[ReplicaKey, Progress]:
        """The progress of each replica that does not serve yet, by (node, store, partition)."""
        found: dict[ReplicaKey, Progress] = {}
        for replica in replicas:
            key = (str(replica["node"]), str(replica["store"]), int(replica["partition"]))
            left = replica.get("offset_lag")
            if replica["serving"] or left is None:
                self._seen.pop(key, None)
                continue
            found[key] = self._progress(key, int(left), at_s)
        return found

    def _progress(self, key: ReplicaKey, left: int, at_s: float) -> Progress:
        seen = self._seen.setdefault(key, _Seen(at_s, left, left))
        if at_s > seen.at_s:
            per_s = (seen.left - left) / (at_s - seen.at_s)
            seen.per_s = per_s if seen.per_s is None else seen.per_s + _SMOOTHING * (per_s - seen.per_s)
            seen.at_s, seen.left, seen.most = at_s, left, max(seen.most, left)
        eta_s = left / seen.per_s if seen.per_s is not None and seen.per_s > 0 else None
        return Progress(1 - left / seen.most if seen.most else 1.0, left, eta_s)
