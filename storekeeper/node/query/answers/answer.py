"""An HTTP answer as a value, with the headers that say where it comes from; errors as problems.

Errors are `application/problem+json` (RFC 9457) with stable types, and Kafka Connect's two fields beside them.

| type suffix                | status | error                                                         |
|----------------------------|--------|---------------------------------------------------------------|
| `unauthenticated`          | 401    | no valid token                                                |
| `forbidden`                | 403    | the caller, its page or the Host header is not allowed this   |
| `hop-refused`              | 403    | a request between nodes that none of them has signed          |
| `unknown-store`            | 404    | no such store                                                 |
| `unknown-key`              | 404    | the store is complete and has no such key                     |
| `unknown-route`            | 404    | no such path                                                  |
| `no-history`               | 404    | the node finds no history of the store                        |
| `invalid-argument`         | 400    | a key, bound, limit or cursor that can't be used              |
| `wrong-kind`               | 400    | the store is of another kind; the detail names what to ask    |
| `not-acceptable`           | 406    | a stream in a format that this node can't write               |
| `method-not-allowed`       | 405    | the service only reads                                        |
| `not-exact`                | 409    | the rows at that time are not known; the detail has a time    |
| `body-too-slow`            | 408    | the request's body was not there in time                      |
| `body-too-large`           | 413    | the request's body is over the limit                          |
| `key-too-long`             | 414    | the key is over the limit                                     |
| `uri-too-long`             | 414    | the path and query string are over the limit                  |
| `not-held`                 | 421    | a forwarded request reached a node without that partition     |
| `too-many-scans`           | 429    | the node answers as many scans as it may; ask again           |
| `too-many-requests`        | 429    | the node answers as many requests as it may; ask again        |
| `headers-too-large`        | 431    | too many headers, or too long ones                            |
| `restoring`                | 503    | not caught up yet; ask again                                  |
| `unavailable`              | 503    | no replica can answer now; ask again                          |
| `too-stale`                | 503    | no replica is as fresh as required; `freshest` names the best |
| `deadline-exceeded`        | 503    | the answer was not ready before the deadline; ask again       |
| `internal`                 | 500    | a defect; the node's log has it                               |
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import orjson

from storekeeper.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    NotExactError,
    RetriableError,
    SerializationError,
    StateError,
    StoreCorruptedError,
    StoreMigratedError,
    StoreRestoringError,
    UnknownStoreError,
)
from storekeeper.names import store_of
from storekeeper.node.security.access import ForbiddenError, UnauthenticatedError
from storekeeper.node.security.hop import HopRefusedError
from storekeeper.protocol.freshness import TooStaleError

SERVED_BY = b"storekeeper-served-by"
ROLE = b"storekeeper-role"
PARTITION = b"storekeeper-partition"
OFFSET = b"storekeeper-offset"
OFFSET_LAG = b"storekeeper-offset-lag"
STALENESS = b"storekeeper-staleness-ms"
POSITION = b"storekeeper-position"
COMPLETE = b"storekeeper-complete"
EPOCH = b"storekeeper-epoch"
NEXT_CURSOR = b"storekeeper-next-cursor"

JSON = (b"content-type", b"application/json")
Send = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes

    @classmethod
    def problem(cls, problem: Problem, *more: tuple[bytes, bytes]) -> Answer:
        """An error answer."""
        return cls(problem.status, [*problem.headers(), *more], problem.body())

    async def send(self, send: Send) -> None:
        """Sends it by ASGI."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})


MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:storekeeper:problem:"
_RETRY_AFTER_S = 1


class UnknownKeyError(StateError):
    """The store is complete and holds no such key."""


class NoHistoryError(StateError):
    """The node has no history of the store, so it can't answer for a time."""


def unknown_key(store: str, key: bytes) -> UnknownKeyError:
    """The error for a key without a row in a complete store."""
    return UnknownKeyError(f"store {store_of(store)} has no key {key[:200].decode(errors='replace')!r}")


class KeyTooLongError(InvalidArgumentError):
    """The key is longer than the node takes."""


class BodyTooLargeError(InvalidArgumentError):
    """The request's body is longer than the node reads."""


class BodyTooSlowError(StateError):
    """The request's body didn't arrive in time."""


class UrlTooLongError(InvalidArgumentError):
    """The path and query string are longer than the node takes."""


class HeadersTooLargeError(InvalidArgumentError):
    """There are more request headers than the node takes, or they are longer."""


class TooManyRequestsError(RetriableError):
    """The node has reached its limit of requests at once. Ask again."""


class DeadlineExceededError(RetriableError):
    """The answer was not ready when the asker stopped waiting. Ask again, with more time."""


class TooManyScansError(RetriableError):
    """The node has reached its limit of scans at once. Ask again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error answer."""

    kind: str
    status: int
    detail: str
    retry: bool = False
    details: Mapping[str, object] = field(default_factory=dict)

    def body(self) -> bytes:
        """The JSON document."""
        title = self.kind.replace("-", " ").capitalize()
        return orjson.dumps(
            {
                "type": _TYPE + self.kind,
                "title": title,
                "status": self.status,
                "detail": self.detail,
                "error_code": self.status,
                "message": self.detail,
                **self.details,
            }
        )

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Media type, length and, where waiting helps, `Retry-After`."""
        headers = [(b"content-type", MEDIA_TYPE.encode())]
        if self.retry:
            headers.append((b"retry-after", b"%d" % _RETRY_AFTER_S))
        return headers


class WrongKindError(InvalidArgumentError):
    """The store is there, but is of another kind than the route asks. The message names the routes that fit."""


class NotAcceptableError(InvalidArgumentError):
    """The answer can't be written in the format asked for."""


_KINDS: tuple[tuple[type[Exception], str, HTTPStatus], ...] = (
    (UnknownStoreError, "unknown-store", HTTPStatus.NOT_FOUND),
    (UnknownKeyError, "unknown-key", HTTPStatus.NOT_FOUND),
    (NoHistoryError, "no-history", HTTPStatus.NOT_FOUND),
    (NotExactError, "not-exact", HTTPStatus.CONFLICT),
    (UnauthenticatedError, "unauthenticated", HTTPStatus.UNAUTHORIZED),
    (ForbiddenError, "forbidden", HTTPStatus.FORBIDDEN),
    (HopRefusedError, "hop-refused", HTTPStatus.FORBIDDEN),
    (BodyTooSlowError, "body-too-slow", HTTPStatus.REQUEST_TIMEOUT),
    (UrlTooLongError, "uri-too-long", HTTPStatus.REQUEST_URI_TOO_LONG),
    (HeadersTooLargeError, "headers-too-large", HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE),
    (TooManyRequestsError, "too-many-requests", HTTPStatus.TOO_MANY_REQUESTS),
    (DeadlineExceededError, "deadline-exceeded", HTTPStatus.SERVICE_UNAVAILABLE),
    (KeyTooLongError, "key-too-long", HTTPStatus.REQUEST_URI_TOO_LONG),
    (BodyTooLargeError, "body-too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (WrongKindError, "wrong-kind", HTTPStatus.BAD_REQUEST),
    (NotAcceptableError, "not-acceptable", HTTPStatus.NOT_ACCEPTABLE),
    (InvalidArgumentError, "invalid-argument", HTTPStatus.BAD_REQUEST),
    (SerializationError, "invalid-argument", HTTPStatus.BAD_REQUEST),
    (TooManyScansError, "too-many-scans", HTTPStatus.TOO_MANY_REQUESTS),
    (StoreMigratedError, "not-held", HTTPStatus.MISDIRECTED_REQUEST),
    (StoreRestoringError, "restoring", HTTPStatus.SERVICE_UNAVAILABLE),
    (TooStaleError, "too-stale", HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreCorruptedError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
    (InvalidStateStoreError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
    (RetriableError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
)

_DEFECT = (Exception, "internal", HTTPStatus.INTERNAL_SERVER_ERROR)

KINDS_BY_STATUS: Mapping[int, tuple[str, ...]] = {
    status.value: tuple(dict.fromkeys(name for _, name, its in (*_KINDS, _DEFECT) if its is status))
    for status in sorted({status for _, _, status in (*_KINDS, _DEFECT)})
}
"""The types of problem that come with each status, but for those of unknown routes."""

REFUSALS = tuple(dict.fromkeys(name for _, name, status in _KINDS if status is not HTTPStatus.NOT_FOUND))
"""The types of problem that refuse a request. "Not found" is a regular answer and not among them."""


def problem_of(error: Exception) -> Problem:
    """The problem for an error. For an unexpected error it gives the caller no details."""
    for kind, name, status in _KINDS:
        if isinstance(error, kind):
            retry = status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
            return Problem(name, status, str(error), retry, _details(error))
    _, name, status = _DEFECT
    return Problem(name, status, "the node failed to answer; its log says why")


def _details(error: Exception) -> Mapping[str, object]:
    """The fields of an error besides its message."""
    details = getattr(error, "details", None)
    return details() if callable(details) else {}
