"""The headers of a dead letter."""

from __future__ import annotations

from storekeeper.engine.dead_letters import dead_letter
from storekeeper.topology.records import DeadLetter, Record
from storekeeper.trace_context import TRACEPARENT
from tests.test_trace_context import TRACE


def test_it_keeps_the_headers_of_its_record_but_those_of_an_earlier_dead_letter() -> None:
    record = Record("pos", 1, 2, 3, b"k", b"v", [("own", b"x"), (TRACEPARENT, TRACE), ("dlq.topic", b"before")])
    *_, headers = dead_letter(DeadLetter(record, "why", "SomeError", "pos.map"), app="app")
    found = dict(headers)
    assert len(found) == len(headers)
    assert (found[TRACEPARENT], found["own"], found["dlq.operator"]) == (TRACE, b"x", b"pos.map")
    assert (found["dlq.topic"], found["dlq.partition"], found["dlq.offset"]) == (b"pos", b"1", b"2")


def test_without_a_trace_it_has_none() -> None:
    *_, headers = dead_letter(DeadLetter(Record("pos", 1, 2, 3, b"k", b"v"), "why", "SomeError"), app="app")
    assert TRACEPARENT not in dict(headers)


def test_a_row_that_had_waited_has_no_place() -> None:
    letter = DeadLetter(Record("", -1, -1, 3, b"k", b"v"), "why", "SomeError", "pos.suppress")
    *_, headers = dead_letter(letter, app="app")
    assert not dict(headers).keys() & {"dlq.topic", "dlq.partition", "dlq.offset"}
