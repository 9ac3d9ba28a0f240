"""The trace that a request or a record belongs to: `traceparent` of W3C Trace Context, passed on as it came.

A malformed one is ignored, as the standard demands: what it came with is then part of no trace.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextvars import ContextVar

TRACEPARENT = "traceparent"
_FORM = re.compile(rb"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")

current_trace: ContextVar[str | None] = ContextVar("current_trace", default=None)
"""The `traceparent` of the request that the running task answers. None outside a request, and without one."""


def trace_of(value: bytes | None) -> bytes | None:
    """A header's value if it is a `traceparent`, None if not."""
    return value if value is not None and _FORM.fullmatch(value) is not None else None


def trace_in(headers: Iterable[tuple[str, bytes | None]]) -> bytes | None:
    """The `traceparent` among a record's headers, the last one if there are several; None if there is none."""
    trace = None
    for name, value in headers:
        if name == TRACEPARENT:
            trace = value
    return trace_of(trace)
