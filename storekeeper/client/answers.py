"""Outcomes of requests: answers, what a status means, the origin in the headers, and failures. No I/O."""

from __future__ import annotations

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum, auto
from typing import Any, TypeVar

from storekeeper.client.credentials import AccessDeniedError
from storekeeper.client.readings import Reading
from storekeeper.errors import (
    ConfigurationError,
    InvalidArgumentError,
    InvalidStateStoreError,
    NotExactError,
    SerializationError,
    StateError,
    StoreRestoringError,
    StoreUnavailableError,
    UnknownStoreError,
)
from storekeeper.protocol.freshness import Freshest, TooStaleError

T = TypeVar("T")

MISDIRECTED = 421
_TOO_MANY = 429
_RETRIED = frozenset({_TOO_MANY, 502, 503, 504})
_UNKNOWN_KEY = "unknown-key"
_TOO_STALE = "too-stale"

NO_ANSWER_WITHIN = "no answer within"
"""How the reason of a failed attempt begins if the node did not answer in time."""


class ReplyVerdict(Enum):
    """What a client does with an answer."""

    FINAL = auto()
    """It is final, good or bad: another node would answer the same."""
    REFUSED = auto()
    """This node can't answer now; another one may."""
    DEFECT = auto()
    """This node fails unexpectedly; another one may do better."""
    MISDIRECTED = auto()
    """This node no longer holds the partition that the client asked it for."""
    TOO_STALE = auto()
    """No replica that this node knows of is as fresh as required."""


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP answer. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    content: bytes

    def json(self) -> Any:
        """Its JSON, numbers with a fraction as `Decimal`.

        Raises:
            SerializationError: if it isn't JSON.
        """
        try:
            return json.loads(self.content, parse_float=Decimal)
        except ValueError as error:
            raise SerializationError(f"the node's answer is not JSON: {self.content[:80]!r}") from error

    def rows(self) -> list[dict[str, Any]]:
        """Its JSON, which is a list of rows."""
        rows: list[dict[str, Any]] = self.json()
        return rows

    @property
    def problem(self) -> Mapping[str, Any]:
        """The problem document, empty if there is none."""
        try:
            problem = json.loads(self.content)
        except ValueError:
            return {}
        return problem if isinstance(problem, dict) else {}

    @property
    def kind(self) -> str:
        """The last part of the problem's type."""
        return str(self.problem.get("type", "")).rpartition(":")[2]

    @property
    def detail(self) -> str:
        """The problem in one sentence."""
        return str(self.problem.get("detail", f"status {self.status}"))

    @property
    def retry_after_s(self) -> float:
        """The seconds to wait, from `Retry-After`; 0 if it is missing or can't be read."""
        text = self.headers.get("retry-after", "")
        return float(text) if text.isdigit() else 0.0


def verdict(reply: Reply) -> ReplyVerdict:
    """How to handle a reply. A status of 400 to 499 is never retried, except 421 and 429."""
    if reply.status == MISDIRECTED:
        return ReplyVerdict.MISDIRECTED
    if reply.status == _TOO_MANY or reply.status >= 500:
        if reply.kind == _TOO_STALE:
            return ReplyVerdict.TOO_STALE
        return ReplyVerdict.REFUSED if reply.status in _RETRIED else ReplyVerdict.DEFECT
    return ReplyVerdict.FINAL


def reading(reply: Reply, value: T) -> Reading[T]:
    """A value with the origin from the headers."""
    headers = reply.headers
    return Reading(
        value=value,
        served_by=headers.get("storekeeper-served-by", ""),
        role=headers.get("storekeeper-role", ""),
        partition=_number(headers.get("storekeeper-partition")),
        offset=_number(headers.get("storekeeper-offset")),
        offset_lag=_number(headers.get("storekeeper-offset-lag")) or 0,
        staleness_ms=_number(headers.get("storekeeper-staleness-ms")),
        position=headers.get("storekeeper-position", ""),
        complete=headers.get("storekeeper-complete", "true") != "false",
        found=not is_unknown_key(reply),
    )


def is_unknown_key(reply: Reply) -> bool:
    """Whether it says that the store is complete and has no such key."""
    return reply.status == 404 and reply.kind == _UNKNOWN_KEY


def error_of(reply: Reply) -> StateError:
    """The error for a final answer other than 200."""
    if reply.kind == "unknown-store":
        return UnknownStoreError(reply.detail)
    if reply.status in {401, 403}:
        return AccessDeniedError(reply.detail)
    if reply.kind == "not-exact":
        return NotExactError(reply.detail)
    if 400 <= reply.status < 500:
        return InvalidArgumentError(reply.detail)
    return StateError(f"the node answered with status {reply.status}: {reply.detail}")


def too_stale(reply: Reply) -> TooStaleError:
    """The error for a refusal for lack of freshness."""
    return TooStaleError(reply.detail, Freshest.in_refusal(reply.content))


def gave_up(store: str, timeout_s: float, reasons: Mapping[str, str], *, restoring: bool) -> InvalidStateStoreError:
    """The error of a query that no node answered in time."""
    why = "; ".join(f"{address}: {reason}" for address, reason in reasons.items()) or "no time was given"
    msg = f"no node answered{f' for store {store}' if store else ''} within {timeout_s:g} s: {why}"
    return StoreRestoringError(msg) if restoring else StoreUnavailableError(msg)


def no_answer_within(seconds: float) -> str:
    """The reason of an attempt whose node did not answer in time."""
    return f"{NO_ANSWER_WITHIN} {round(seconds, 3):g} s"


def _number(text: object) -> int | None:
    if isinstance(text, int):
        return text
    return int(text) if isinstance(text, str) and text.isdigit() else None


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer. `hopeless` is the error if no later request does better."""

    reason: str
    hopeless: StateError | None = None


Outcome = Reply | Failure


def failure_of(error: Exception, timeout_s: float) -> Failure:
    """The failure for an error.

    Args:
        error: how the attempt ended. A certificate that can't be verified won't be verified later.
        timeout_s: the time limit of the attempt.
    """
    if isinstance(error, ConfigurationError):
        return Failure(str(error), error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            msg = f"the node's certificate can't be verified ({cause.verify_message}): name the authority's file"
            return Failure(msg, ConfigurationError(msg))
        if isinstance(cause, TimeoutError):
            return Failure(no_answer_within(timeout_s))
        if isinstance(cause, OSError) and cause.strerror:
            return Failure(f"does not answer ({cause.strerror})")
        cause = cause.__cause__ or cause.__context__
    return Failure(f"does not answer ({str(error) or 'the connection broke'})")
