"""What a source does with records before operators see them: checks and event times."""

from __future__ import annotations

import msgspec
import pytest

from storekeeper.errors import ConfigurationError, SerializationError
from storekeeper.topology import StreamsBuilder, TopologyTestDriver


class Event(msgspec.Struct, frozen=True):
    user: str
    time_ms: int


class ForeignKeyError(SerializationError):
    """The key is another one than the value's."""


def own_key(key: str | None, event: Event | None, timestamp_ms: int) -> None:
    if event is None or key != event.user:
        msg = f"at {timestamp_ms}: not the key of its value"
        raise ForeignKeyError(msg)


def event_time(_key: str, event: Event) -> int:
    return event.time_ms


def checked() -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    streams.stream("events", Event, check=own_key, timestamps=event_time).to("out")
    return TopologyTestDriver(streams.build())


def test_what_a_check_refuses_is_a_dead_letter_with_the_errors_class() -> None:
    driver = checked()
    driver.pipe("events", "b", Event("a", 5), 7)
    driver.pipe("events", None, None, 8)
    driver.append_bytes("events", b"a", b"no JSON", 9)
    driver.run()
    assert [(letter.error_class, letter.reason) for letter in driver.dead_letters[:2]] == [
        ("ForeignKeyError", "at 7: not the key of its value"),
        ("ForeignKeyError", "at 8: not the key of its value"),
    ]
    assert driver.dead_letters[2].error_class == "SerializationError"
    assert driver.read("out") == []


def test_the_event_time_takes_the_place_of_the_records_timestamp() -> None:
    driver = checked()
    driver.pipe("events", "a", Event("a", 5), 7_000)
    assert [record.timestamp_ms for record in driver.read("out")] == [5]
    assert driver.dead_letters == []


def test_a_negative_event_time_is_a_dead_letter() -> None:
    driver = checked()
    driver.pipe("events", "a", Event("a", -1), 7)
    (letter,) = driver.dead_letters
    assert (letter.error_class, letter.reason) == ("InvalidTimestampError", "its time is before 1970")
    assert letter.record.timestamp_ms == 7


def test_a_record_without_a_value_keeps_its_timestamp() -> None:
    streams = StreamsBuilder("app")
    streams.stream("events", Event, timestamps=event_time).to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("events", "a", None, 7)
    assert driver.read("out") == [("a", None, 7)]


def test_windows_are_those_of_the_event_time() -> None:
    streams = StreamsBuilder("app")
    stream = streams.stream("events", Event, timestamps=event_time)
    stream.group_by_key().count(store="counts")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("events", "a", Event("a", 3), 100)
    driver.pipe("events", "a", Event("a", 1), 200)
    assert driver.store("counts").get("a").timestamp_ms == 3


def test_a_topic_has_one_check() -> None:
    streams = StreamsBuilder("app")
    streams.stream("events", Event, check=own_key)
    streams.stream("events", Event, check=own_key).to("out")
    with pytest.raises(ConfigurationError, match="another check"):
        streams.stream("events", Event)
