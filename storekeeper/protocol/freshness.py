"""The freshness that a caller requires of an answer, as query parameters of every read.

| parameter           | an answer must                                                                           |
|---------------------|------------------------------------------------------------------------------------------|
| `max_staleness_ms=` | hold every record that was in the changelog that long before the request arrived         |
| `max_lag=`          | lack at most that many records, by an end offset requested at most a second ago          |
| `position=`         | include everything up to the token's position: see `position_token`                      |
| `stale=ok`          | may come from a replica that is still restoring                                          |
| `stale=no`          | come from the active replica that has caught up, not from a standby                      |
| `partial=ok`        | may lack rows of partitions that can't answer, or whose changelog is lost                |
| `wait_ms=`          | wait that long for a replica that doesn't meet the requirement yet, within the deadline  |
| `deadline_ms=`      | come within that time, or not at all                                                     |

`max_staleness_ms=0` with a wait is a linearizable read: the end offset is requested after the request has arrived, and
the answer holds everything below it. Nobody can see what is committed behind an open transaction: then it waits.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from enum import Enum
from typing import Self
from urllib.parse import parse_qsl, urlencode

import orjson

from storekeeper.errors import InvalidArgumentError, StoreUnavailableError
from storekeeper.protocol.position_token import PositionToken
from storekeeper.protocol.replica_freshness import ReplicaFreshness
from storekeeper.protocol.replica_states import ReplicaRole

END_GOOD_FOR_MS = 1000
"""A lag counts only if its end offset was requested at most this long ago."""
MAX_MS = 86_400_000 * 366
"""The largest duration and lag that a requirement may name."""
PARAMETERS = frozenset({"max_staleness_ms", "max_lag", "position", "wait_ms", "stale", "deadline_ms", "partial"})
"""The names of the parameters above."""
_NONE: frozenset[str] = frozenset()
_SHOWN = 40


def check_names(query: bytes, known: AbstractSet[str], lists: AbstractSet[str] = _NONE) -> None:
    """Checks the names in a query string: a misspelled one would be ignored, and the answer be staler than required.

    A name is written plainly: percent-encoded it is another one.

    `known` are the names that may be there, those in `lists` several times.

    Raises:
        InvalidArgumentError: if a name is not known, or is there twice.
    """
    seen: set[str] = set()
    for part in filter(None, query.split(b"&")):
        name = part.partition(b"=")[0].decode("ascii", errors="replace")
        if name not in known:
            near = get_close_matches(name, known, 1) or sorted(known)
            msg = f"there is no parameter {name[:_SHOWN]!r} here: did you mean {' or '.join(near)}?"
            raise InvalidArgumentError(msg)
        if name in seen and name not in lists:
            raise InvalidArgumentError(f"{name} is given twice: give it once")
        seen.add(name)


class Stale(Enum):
    """Which replicas may answer."""

    CAUGHT_UP = ""
    """Any that has caught up: the active one and standbys."""
    OK = "ok"
    """Those that are still restoring too."""
    NO = "no"
    """The active one only."""


@dataclass(frozen=True, slots=True)
class FreshnessRequirement:
    """A caller's requirement; see the module. None stands for a parameter that was not given."""

    max_staleness_ms: int | None = None
    max_lag: int | None = None
    position: PositionToken | None = None
    wait_ms: int = 0
    stale: Stale = Stale.CAUGHT_UP
    deadline_ms: int | None = None
    partial_ok: bool = False

    @classmethod
    def parse(cls, query: str | bytes) -> Self:
        """Reads a query string. Parameters of other names are not looked at.

        Raises:
            InvalidArgumentError: if one is malformed or comes twice.
        """
        if not query:
            return cls()
        try:
            text = query.decode("ascii") if isinstance(query, bytes) else query
            pairs = parse_qsl(text, keep_blank_values=True, errors="strict")
        except ValueError as error:
            raise InvalidArgumentError("the query string is not percent-encoded text") from error
        fields: dict[str, str] = {}
        for name, value in pairs:
            if name in PARAMETERS:
                if name in fields:
                    raise InvalidArgumentError(f"{name} is given twice: give it once")
                fields[name] = value
        return cls._of(fields)

    @classmethod
    def _of(cls, fields: dict[str, str]) -> Self:
        position = fields.get("position")
        return cls(
            max_staleness_ms=_count(fields, "max_staleness_ms"),
            max_lag=_count(fields, "max_lag"),
            position=None if position is None else PositionToken.parse(position),
            wait_ms=_count(fields, "wait_ms") or 0,
            stale=_stale(fields.get("stale")),
            deadline_ms=_deadline(fields),
            partial_ok=_is_ok(fields, "partial"),
        )

    @property
    def asks_freshness(self) -> bool:
        """Whether freshness is required. If not, any caught-up replica may answer, however old."""
        return (
            self.max_staleness_ms is not None
            or self.max_lag is not None
            or self.position is not None
            or self.stale is not Stale.CAUGHT_UP
        )

    def met_by(self, replica: ReplicaFreshness) -> bool:
        """Whether a replica with this freshness at the request's arrival may answer."""
        return (
            self.allows(replica.role, caught_up=replica.caught_up)
            and _at_most(replica.staleness_ms, self.max_staleness_ms)
            and self._lag_met(replica)
            and self._position_met(replica)
        )

    def allows(self, role: ReplicaRole, *, caught_up: bool) -> bool:
        """Whether `stale` lets a replica of this kind answer."""
        if self.stale is Stale.NO and role is not ReplicaRole.ACTIVE:
            return False
        return caught_up or self.stale is Stale.OK

    def deadline_s(self, arrived_s: float, longest_s: float) -> float:
        """The deadline: as required, but at most `longest_s` after the arrival."""
        wanted_s = longest_s if self.deadline_ms is None else self.deadline_ms / 1000
        return arrived_s + min(wanted_s, longest_s)

    def sent_on(self, left_ms: int, spent_ms: int = 0) -> FreshnessRequirement:
        """The requirement for another node: with the time left until the deadline, and the wait less the time spent."""
        wait_ms = max(0, min(self.wait_ms - spent_ms, left_ms))
        return replace(self, deadline_ms=max(1, left_ms), wait_ms=wait_ms)

    def query(self) -> str:
        """The query string, without `?`; empty if nothing is required."""
        pairs: list[tuple[str, str]] = []
        for name in ("max_staleness_ms", "max_lag", "deadline_ms"):
            count: int | None = getattr(self, name)
            if count is not None:
                pairs.append((name, str(count)))
        if self.position is not None:
            pairs.append(("position", self.position.encode()))
        if self.wait_ms:
            pairs.append(("wait_ms", str(self.wait_ms)))
        if self.stale is not Stale.CAUGHT_UP:
            pairs.append(("stale", self.stale.value))
        if self.partial_ok:
            pairs.append(("partial", "ok"))
        return urlencode(pairs)

    def _lag_met(self, replica: ReplicaFreshness) -> bool:
        if self.max_lag is None:
            return True
        return _at_most(replica.end_age_ms, END_GOOD_FOR_MS) and _at_most(replica.offset_lag, self.max_lag)

    def _position_met(self, replica: ReplicaFreshness) -> bool:
        if self.position is None:
            return True
        shown = self.position.changelog.offset(replica.topic, replica.partition)
        return (shown is None or replica.offset >= shown) and replica.source.reaches(self.position.source)


NO_REQUIREMENT = FreshnessRequirement()
"""The requirement of a request without any of the parameters."""


def _at_most(value: int | None, limit: int | None) -> bool:
    return limit is None or (value is not None and value <= limit)


def _count(fields: dict[str, str], name: str) -> int | None:
    text = fields.get(name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(MAX_MS)) and int(text) <= MAX_MS):
        raise InvalidArgumentError(f"{name} must be a number from 0 to {MAX_MS}, not {text[:40]!r}")
    return int(text)


def _deadline(fields: dict[str, str]) -> int | None:
    deadline_ms = _count(fields, "deadline_ms")
    if deadline_ms == 0:
        raise InvalidArgumentError("deadline_ms must be at least 1: nothing can be answered in no time")
    return deadline_ms


def _stale(text: str | None) -> Stale:
    if text is None:
        return Stale.CAUGHT_UP
    if text not in {"ok", "no"}:
        raise InvalidArgumentError(f"stale must be ok or no, not {text[:40]!r}")
    return Stale(text)


def _is_ok(fields: dict[str, str], name: str) -> bool:
    text = fields.get(name)
    if text not in {None, "ok"}:
        raise InvalidArgumentError(f"{name} must be ok or absent, not {text[:40]!r}")
    return text == "ok"


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
                _too_stale_count(fields["offset_lag"]),
                _too_stale_count(fields["staleness_ms"]),
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
    reported = [one for one in known if one is not None]
    return min(reported, key=lambda one: (_or_endless(one.staleness_ms), _or_endless(one.offset_lag)), default=None)


def _or_endless(number: int | None) -> float:
    return float("inf") if number is None else number


def _too_stale_count(number: object) -> int | None:
    if number is None or (type(number) is int and number >= 0):
        return number
    raise TypeError("not a count")
