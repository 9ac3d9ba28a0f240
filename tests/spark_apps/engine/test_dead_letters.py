"""The headers of a dead letter."""

from __future__ import annotations

from spark_apps.engine.dead_letters import dead_letter
from state.topology.records import DeadLetter, Record
from state.trace_context import TRACEPARENT
from tests.state.test_trace_context import TRACE


def test_it_keeps_the_trace_of_its_record_and_no_other_header() -> None:
    record = Record("pos", 1, 2, 3, b"k", b"v", [("own", b"x"), (TRACEPARENT, TRACE)])
    *_, headers = dead_letter(DeadLetter(record, "why", "SomeError"), app="app")
    found = dict(headers)
    assert found[TRACEPARENT] == TRACE
    assert "own" not in found
    assert (found["dlq.topic"], found["dlq.partition"], found["dlq.offset"]) == (b"pos", b"1", b"2")


def test_without_a_trace_it_has_none() -> None:
    *_, headers = dead_letter(DeadLetter(Record("pos", 1, 2, 3, b"k", b"v"), "why", "SomeError"), app="app")
    assert TRACEPARENT not in dict(headers)
