"""What routes read of a request: query parameters, typed and described once, and keys in paths.

A parameter that a route doesn't know is refused by name, as a misspelled one would be ignored. Keys are read from the
path as it was sent: in a decoded path, `/` and `%2F` look the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, get_origin
from urllib.parse import unquote_to_bytes

from fastapi import FastAPI, Query
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field
from starlette.routing import Route

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.security.access import INTERNAL_PREFIX
from storekeeper.protocol.freshness import check_names
from storekeeper.protocol.keys import decode_base64url

_DURATION = {"type": "integer", "minimum": 0, "maximum": 86_400_000 * 366}

KeyFormat = Annotated[str, Query(pattern="^(string|base64url)$", description="How keys in the path are written.")]

AsOf = Annotated[
    str,
    Query(
        description="The rows after the last batch until then; of a versioned store the version that was valid then. "
        "Epoch milliseconds, or ISO 8601. Eight digits may be either and are refused."
    ),
]


class PageParameters(BaseModel):
    """Which page of a list."""

    limit: int = Field(100, ge=1, description="Rows of a page, at most the node's limit of 1000.")
    cursor: str | None = Field(None, description="`storekeeper-next-cursor` of the previous page.")


class PastPageParameters(PageParameters):
    """The same, and of which time."""

    as_of: AsOf | None = None


class ScanParameters(PastPageParameters):
    """Which page of a scan, and in which order."""

    reverse: bool = Field(False, description="Backwards: from the last key to the first.")


class KeyScanParameters(ScanParameters):
    """The same, for a path with keys."""

    key_format: KeyFormat = "string"


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


_REQUIREMENTS: list[dict[str, Any]] = [
    _parameter(
        "partial", "`ok`: lack rows of partitions that can't answer now.", {"type": "string", "pattern": "^(ok)?$"}
    ),
    _parameter("max_staleness_ms", "Include every record that was written at least this long ago.", _DURATION),
    _parameter("max_lag", "How many records may be missing at most.", _DURATION),
    _parameter("position", "Include all that a `storekeeper-position` of an earlier answer names.", {"type": "string"}),
    _parameter("wait_ms", "How long to wait for a replica that is fresh enough.", _DURATION | {"default": 0}),
    _parameter("stale", "`no`: active replicas only.", {"type": "string", "pattern": "^(ok|no)?$"}),
    _parameter("deadline_ms", "Time limit of the answer.", _DURATION | {"minimum": 1}),
]


class ReadRoute(APIRoute):
    """A route that takes requirements of freshness. They are documented here and read by `FreshnessRequirement.parse`.

    As a dependency of the framework they would be parsed twice, which takes longer than most answers.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options | {"openapi_extra": {"parameters": _REQUIREMENTS}})


_EVERYWHERE = frozenset({"deadline_ms"})


def refuse_unknown_parameters(app: FastAPI) -> None:
    """Makes every current route of `app` check its parameters. Routes between nodes are signed and left alone."""
    for route in app.routes:
        if isinstance(route, Route) and not route.path.startswith(INTERNAL_PREFIX.decode()):
            route.app = _KnownParameters(route)


class _KnownParameters:
    """ASGI, in front of one route's endpoint."""

    def __init__(self, route: Route) -> None:
        self._app = route.app
        self._lists: frozenset[str] = frozenset()
        known = set(_EVERYWHERE)
        if isinstance(route, APIRoute):
            fields = route.dependant.query_params
            documented = (route.openapi_extra or {}).get("parameters", ())
            known |= {name for field in fields for name in _names(field)} | {
                parameter["name"] for parameter in documented
            }
            self._lists = frozenset(field.alias for field in fields if get_origin(field.field_info.annotation) is list)
        self._known = frozenset(known)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["query_string"]:
            check_names(scope["query_string"], self._known, self._lists)
        await self._app(scope, receive, send)


def _names(field: Any) -> Iterable[str]:
    """The names of a parameter, or of all that a model has."""
    return getattr(field.field_info.annotation, "model_fields", (field.alias,))


def raw_tail(scope: Mapping[str, Any], segments: int) -> bytes:
    """The rest of the path behind the first `segments` segments, still percent-encoded."""
    path: bytes = scope["raw_path"]
    return b"/".join(path.split(b"/")[segments + 1 :])


def key_behind(scope: Mapping[str, Any], segments: int, key_format: str = "string") -> bytes:
    """The key that follows the first `segments` segments of the path: slashes in it may be encoded or not.

    Raises:
        InvalidArgumentError: if there is none, or `key_format` is base64url and it is not written so.
    """
    key = unquote_to_bytes(raw_tail(scope, segments))
    if not key:
        raise InvalidArgumentError("the key is empty: put it at the end of the path, percent-encoded")
    return decode_base64url(key, "the key") if key_format == "base64url" else key


def two_keys_behind(scope: Mapping[str, Any], segments: int, key_format: str) -> tuple[bytes, bytes]:
    """The two keys that follow the first `segments` segments: slashes in them must be encoded. Either may be empty.

    Raises:
        InvalidArgumentError: if there are not two, or `key_format` is base64url and one is not written so.
    """
    parts = raw_tail(scope, segments).split(b"/")
    if len(parts) != 2:
        raise InvalidArgumentError("a range needs two keys: /range/{from}/{to}, with slashes in keys written as %2F")
    first, last = map(unquote_to_bytes, parts)
    if key_format == "base64url":
        return decode_base64url(first, "the first key"), decode_base64url(last, "the last key")
    return first, last


def segments_behind(scope: Mapping[str, Any], segments: int, *, at_least: int, form: str) -> list[bytes]:
    """Everything behind the first `segments` segments, split at the slashes that are not encoded.

    Raises:
        InvalidArgumentError: if there are fewer than `at_least`; the message shows the path's `form`.
    """
    parts = [unquote_to_bytes(part) for part in raw_tail(scope, segments).split(b"/")]
    if len(parts) < at_least or not parts[0]:
        msg = f"the path must have the form {form}"
        raise InvalidArgumentError(msg)
    return parts
