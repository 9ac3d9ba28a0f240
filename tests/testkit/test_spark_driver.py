"""What the driver on Spark reads from Kafka and writes there."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from storekeeper.engine.dead_letters import dead_letter
from storekeeper.testkit.spark_driver import SparkDriver, _letter
from storekeeper.topology.records import DeadLetter, Record


def test_a_dead_letter_may_have_headers_of_its_record_that_are_no_text() -> None:
    record = Record("pos", 1, 7, 1_700_000_000_000, b"k", b"v", [("trace", b"\xff\x01"), ("none", None)])
    key, value, _, headers = dead_letter(DeadLetter(record, "it is bad", "ValueError", "map-1", ""), app="a")
    message: Any = SimpleNamespace(headers=lambda: headers, key=lambda: key, value=lambda: value)
    letter = _letter(message)
    assert (letter.record.topic, letter.record.offset) == ("pos", 7)
    assert letter.record.headers == [("trace", b"\xff\x01"), ("none", None)]
    assert letter.reason == "it is bad"


def test_a_header_without_a_value_stays_so(monkeypatch: Any) -> None:
    message: Any = SimpleNamespace(
        headers=lambda: [("none", None), ("empty", b"")], key=lambda: b"k", value=lambda: b"v", offset=lambda: 0,
        partition=lambda: 0, timestamp=lambda: (0, 5),
    )  # fmt: skip
    monkeypatch.setattr("storekeeper.testkit.spark_driver.read_topic", lambda *_: [message])
    shown: list[Any] = []
    driver: Any = SparkDriver.__new__(SparkDriver)
    driver._settings, driver._seen, driver._sinks, driver._internal = SimpleNamespace(kafka=None), {}, {"out": 1}, set()
    driver._context = SimpleNamespace(spec=SimpleNamespace(dead_letter_topics=()))
    driver._changelog_topics, driver._logs, driver._slots = {}, {}, ()
    driver._show = lambda *fields: shown.append(fields)
    driver._read_new_records()
    assert shown == [("out", b"k", b"v", 5, [("none", None), ("empty", b"")])]


def test_a_record_of_time_0_does_not_get_the_time_of_now(monkeypatch: Any) -> None:
    times: list[int] = []
    producer = SimpleNamespace(produce=lambda *_, timestamp, **__: times.append(timestamp), flush=lambda _: 0)
    monkeypatch.setattr("storekeeper.testkit.spark_driver.new_producer", lambda *_: producer)
    driver: Any = SparkDriver.__new__(SparkDriver)
    driver._settings = SimpleNamespace(kafka=None)
    driver._piped = [("t", 0, 0, time_ms, b"k", b"v", ()) for time_ms in (0, 5)]
    driver._produce()
    assert times == [1, 5]
