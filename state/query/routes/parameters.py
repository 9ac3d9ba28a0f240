"""Query parameters that many routes have, typed and described once."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Query

_MS = 86_400_000 * 366

Limit = Annotated[int, Query(ge=1, description="Rows of a page, at most the node's limit of 1000.")]
Cursor = Annotated[str | None, Query(description="`storekeeper-next-cursor` of the page before.")]
Reverse = Annotated[bool, Query(description="Backwards: from the last key to the first.")]
KeyFormat = Annotated[str, Query(pattern="^(string|base64url)$", description="How keys in the path are written.")]


def _demands(
    *,
    partial: Annotated[str, Query(pattern="^(ok)?$", description="`ok`: leave out what can't be asked now.")] = "",
    max_staleness_ms: Annotated[
        int | None, Query(ge=0, le=_MS, description="Every record that was written so long ago must be included.")
    ] = None,
    max_lag: Annotated[int | None, Query(ge=0, le=_MS, description="At most so many records may be missing.")] = None,
    position: Annotated[
        str | None, Query(description="Include all that a `storekeeper-position` of an earlier answer names.")
    ] = None,
    wait_ms: Annotated[int, Query(ge=0, le=_MS, description="Wait so long for a replica that is fresh enough.")] = 0,
    stale: Annotated[str, Query(pattern="^(ok|no)?$", description="`no`: active replicas only.")] = "",
    deadline_ms: Annotated[int | None, Query(ge=1, le=_MS, description="Answer within so long.")] = None,
) -> None:
    """Documents the demands; `Demand.parse` reads them."""


DEMANDS = [Depends(_demands)]
"""The dependency of every read."""
