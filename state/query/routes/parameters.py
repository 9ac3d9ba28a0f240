"""Query parameters that many routes have, typed and described once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Query
from fastapi.routing import APIRoute

_DURATION = {"type": "integer", "minimum": 0, "maximum": 86_400_000 * 366}

Limit = Annotated[int, Query(ge=1, description="Rows of a page, at most the node's limit of 1000.")]
Cursor = Annotated[str | None, Query(description="`storekeeper-next-cursor` of the previous page.")]
Reverse = Annotated[bool, Query(description="Backwards: from the last key to the first.")]
KeyFormat = Annotated[str, Query(pattern="^(string|base64url)$", description="How keys in the path are written.")]


def _parameter(name: str, description: str, schema: dict[str, Any]) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": False, "description": description, "schema": schema}


_REQUIREMENTS: list[dict[str, Any]] = [
    _parameter(
        "partial", "`ok`: leave out partitions that can't answer now.", {"type": "string", "pattern": "^(ok)?$"}
    ),
    _parameter("max_staleness_ms", "Include every record that was written at least this long ago.", _DURATION),
    _parameter("max_lag", "How many records may be missing at most.", _DURATION),
    _parameter("position", "Include all that a `storekeeper-position` of an earlier answer names.", {"type": "string"}),
    _parameter("wait_ms", "How long to wait for a replica that is fresh enough.", _DURATION | {"default": 0}),
    _parameter("stale", "`no`: active replicas only.", {"type": "string", "pattern": "^(ok|no)?$"}),
    _parameter(
        "snapshot", "`ok`: the last verified snapshot may answer for one key.", {"type": "string", "pattern": "^(ok)?$"}
    ),
    _parameter("deadline_ms", "Time limit of the answer.", _DURATION | {"minimum": 1}),
]


class ReadRoute(APIRoute):
    """A route that takes requirements of freshness. They are documented here and read by `FreshnessRequirement.parse`.

    As a dependency of the framework they would be parsed twice, which takes longer than most answers.
    """

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        super().__init__(path, endpoint, **options | {"openapi_extra": {"parameters": _REQUIREMENTS}})
