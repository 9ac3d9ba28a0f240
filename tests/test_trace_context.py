"""Which headers are a `traceparent`."""

from __future__ import annotations

import pytest

from storekeeper.trace_context import TRACEPARENT, trace_in, trace_of

TRACE = b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


def test_a_traceparent_is_taken_as_it_is() -> None:
    assert trace_of(TRACE) == TRACE


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        TRACE.upper(),
        TRACE + b"-x",
        TRACE + b"\n",
        b"ff" + TRACE[2:],
        b"00-" + b"0" * 32 + TRACE[35:],
        TRACE[:36] + b"0" * 16 + b"-01",
    ],
)
def test_anything_else_is_none(value: bytes | None) -> None:
    assert trace_of(value) is None


def test_the_last_one_of_a_record_counts() -> None:
    assert trace_in([]) is None
    assert trace_in([("other", TRACE)]) is None
    assert trace_in([(TRACEPARENT, b"x"), ("other", b"y"), (TRACEPARENT, TRACE)]) == TRACE
    assert trace_in([(TRACEPARENT, TRACE), (TRACEPARENT, None)]) is None
