"""Errors as HTTP: `application/problem+json` (RFC 9457) with stable types, and Kafka Connect's two fields beside them.

| type suffix                | status | error                                                         |
|----------------------------|--------|---------------------------------------------------------------|
| `unknown-store`            | 404    | no store of that name here                                    |
| `unknown-key`              | 404    | the store is complete and has no such key                     |
| `unknown-route`            | 404    | no such path                                                  |
| `invalid-argument`         | 400    | a key, bound, limit or cursor that can't be used              |
| `method-not-allowed`       | 405    | the service only reads                                        |
| `body-too-large`           | 413    | the request's body is over the limit                          |
| `key-too-long`             | 414    | the key is over the limit                                     |
| `not-held`                 | 421    | a forwarded request reached a node without that partition     |
| `too-many-scans`           | 429    | the node answers as many scans as it may; ask again           |
| `restoring`                | 503    | not caught up yet; ask again                                  |
| `unavailable`              | 503    | no replica can answer now; ask again                          |
| `internal`                 | 500    | a defect; the node's log has it                               |
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus

import orjson

from state.errors import (
    InvalidArgumentError,
    InvalidStateStoreError,
    RetriableError,
    SerializationError,
    StateError,
    StoreCorruptedError,
    StoreMigratedError,
    StoreRestoringError,
    UnknownStoreError,
)

MEDIA_TYPE = "application/problem+json"
_TYPE = "urn:storekeeper:problem:"
_RETRY_AFTER_S = 1


class UnknownKeyError(StateError):
    """The store is complete and holds no such key."""


class KeyTooLongError(InvalidArgumentError):
    """The key is longer than the node takes."""


class BodyTooLargeError(InvalidArgumentError):
    """The request's body is longer than the node reads."""


class TooManyScansError(RetriableError):
    """The node answers as many scans at once as it may. Ask again."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One error answer."""

    kind: str
    status: int
    detail: str
    retry: bool = False

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
            }
        )

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Media type, length and, where waiting helps, `Retry-After`."""
        found = [(b"content-type", MEDIA_TYPE.encode())]
        if self.retry:
            found.append((b"retry-after", b"%d" % _RETRY_AFTER_S))
        return found


_KINDS: tuple[tuple[type[Exception], str, HTTPStatus], ...] = (
    (UnknownStoreError, "unknown-store", HTTPStatus.NOT_FOUND),
    (UnknownKeyError, "unknown-key", HTTPStatus.NOT_FOUND),
    (KeyTooLongError, "key-too-long", HTTPStatus.REQUEST_URI_TOO_LONG),
    (BodyTooLargeError, "body-too-large", HTTPStatus.REQUEST_ENTITY_TOO_LARGE),
    (InvalidArgumentError, "invalid-argument", HTTPStatus.BAD_REQUEST),
    (SerializationError, "invalid-argument", HTTPStatus.BAD_REQUEST),
    (TooManyScansError, "too-many-scans", HTTPStatus.TOO_MANY_REQUESTS),
    (StoreMigratedError, "not-held", HTTPStatus.MISDIRECTED_REQUEST),
    (StoreRestoringError, "restoring", HTTPStatus.SERVICE_UNAVAILABLE),
    (StoreCorruptedError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
    (InvalidStateStoreError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
    (RetriableError, "unavailable", HTTPStatus.SERVICE_UNAVAILABLE),
)


def problem_of(error: Exception) -> Problem:
    """The answer for an error. Anything unexpected tells the caller nothing beyond that."""
    for kind, name, status in _KINDS:
        if isinstance(error, kind):
            retry = status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
            return Problem(name, status, str(error), retry)
    return Problem("internal", HTTPStatus.INTERNAL_SERVER_ERROR, "the node failed to answer; its log says why")
