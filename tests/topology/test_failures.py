"""Which errors of a user's function are about the record, and which would meet the next record as well."""

from __future__ import annotations

import bz2
import errno
import gzip
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from storekeeper.errors import ConfigurationError, StorageError
from storekeeper.topology import Store, StreamsBuilder, TopologyTestDriver
from storekeeper.topology.failures import is_of_record


def error_of(function: Callable[[], object]) -> Exception:
    with pytest.raises(Exception) as raised:  # noqa: PT011 (any: it is looked at)
        function()
    return raised.value


@pytest.mark.parametrize(
    "function",
    [
        lambda: open("/nowhere/of/this/name").close(),  # noqa: PTH123 (a user's code)
        lambda: open("/" + "n" * 5000).close(),  # noqa: PTH123 (a user's code)
        lambda: open("/").close(),  # noqa: PTH123 (a user's code)
        lambda: datetime.fromtimestamp(1e17),  # noqa: DTZ006 (a user's code)
        lambda: datetime.fromtimestamp(2**55),  # noqa: DTZ006 (a user's code)
        lambda: {"a": 1}["missing"],
        lambda: next(iter(())),
    ],
)
def test_what_a_value_causes_is_about_its_record(function: Callable[[], object]) -> None:
    assert is_of_record(error_of(function))


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        OSError(errno.EIO, "Input/output error"),
        OSError(errno.EMFILE, "Too many open files"),
        OSError("a library's own, without a number"),
        ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"),
        TimeoutError(),
        socket.gaierror(socket.EAI_NONAME, "Name or service not known"),
        ssl.SSLError(1, "certificate verify failed"),
        MemoryError(),
        StorageError("the disk is full"),
        KeyboardInterrupt(),
    ],
    ids=repr,
)
def test_what_the_next_record_would_meet_as_well_is_not(error: BaseException) -> None:
    assert not is_of_record(error)


def test_another_error_from_that_one_is_not_either() -> None:
    def wrapped() -> None:
        try:
            raise StorageError("the disk is full")
        except StorageError as error:
            raise ValueError("no row") from error

    assert not is_of_record(error_of(wrapped))


def driver_of(describe: Callable[[StreamsBuilder], object]) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    describe(streams)
    return TopologyTestDriver(streams.build())


def refused() -> None:
    """What a client does whose server is away."""
    try:
        raise ConnectionRefusedError
    except OSError as error:
        raise ValueError from error


def several() -> None:
    """What a group of tasks does, one of which reaches no server."""
    raise ExceptionGroup("both", [ValueError(), TimeoutError()])


@pytest.mark.parametrize("function", [refused, several])
def test_an_outage_stays_one_whatever_is_raised_from_it(function: Callable[[], None]) -> None:
    driver = driver_of(lambda streams: streams.stream("in", int).peek(lambda _key, _value: function()).to("out"))
    with pytest.raises((ValueError, ExceptionGroup)):
        driver.pipe("in", "k", 1)
    assert driver.dead_letters == []


@dataclass(frozen=True)
class FrozenError(Exception):
    code: int


class UntellableError(Exception):
    def __str__(self) -> str:
        raise RuntimeError

    def add_note(self, _: str) -> None:
        raise TypeError


ALWAYS_THE_SAME = ValueError("the same object")


def raised(error: Exception, cause: Exception | None = None) -> None:
    raise error from cause


@pytest.mark.parametrize(
    "function",
    [
        lambda: raised(FrozenError(1)),
        lambda: raised(UntellableError()),
        lambda: raised(ALWAYS_THE_SAME),
        lambda: raised(ALWAYS_THE_SAME, ALWAYS_THE_SAME),
        lambda: datetime.fromtimestamp(1.7e18),  # noqa: DTZ006 (nanoseconds: an OSError)
        lambda: gzip.decompress(b"not compressed"),
        lambda: bz2.decompress(b"not compressed"),
        lambda: ZoneInfo("America"),
        lambda: ZoneInfo("x" * 300),
    ],
)
@pytest.mark.parametrize("operator", ["check", "map", "add"])
def test_an_error_of_any_class_is_the_records(function: Callable[[], Any], operator: str) -> None:
    def at(place: str, value: int) -> int:
        if place == operator and value < 0:
            function()
        return value

    def describe(streams: StreamsBuilder) -> None:
        numbers = streams.stream("in", int, check=lambda _key, value, _time: at("check", value or 0))
        mapped = numbers.map_values(lambda value: at("map", value), values=int)
        mapped.group_by_key().aggregate(lambda: 0, lambda total, value: total + at("add", value), store=Store("n", int))

    driver = driver_of(describe)
    for value in (1, -1, 2, -2, 3):
        driver.append("in", "k", value)
    driver.run()
    assert [letter.record.offset for letter in driver.dead_letters] == [1, 3]
    assert driver.rows("n") == [("k", 6)]
    assert (ALWAYS_THE_SAME.__traceback__, getattr(ALWAYS_THE_SAME, "__notes__", None)) == (None, None)


def test_a_policy_that_is_none_is_refused_with_those_that_there_are() -> None:
    with (
        pytest.raises(ConfigurationError, match="on_error can't be 'skip': use 'dead_letter' or 'fail'"),
        StreamsBuilder("app").on_error("skip"),
    ):
        pass


@pytest.mark.parametrize("store", [False, True])
def test_a_key_of_another_type_is_refused_with_the_way_on(store: bool) -> None:
    def wrong(_: str, value: Any) -> Any:
        return value

    def describe(streams: StreamsBuilder) -> None:
        numbers = streams.stream("in", int).select_key(wrong, keys=str)
        if store:
            numbers.group_by_key().count(store="counts")
        else:
            numbers.to("out")

    driver = driver_of(describe)
    driver.pipe("in", "a", 1)
    [letter] = driver.dead_letters
    assert letter.reason == "expected text, not int: pass keys=int, or values=int, where it is made"
