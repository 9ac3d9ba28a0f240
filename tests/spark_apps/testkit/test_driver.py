from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from spark_apps.processor.records import OutputRecord, SourceRecord
from spark_apps.processor.state import TaskState
from spark_apps.ticks.spec import TICKS

from spark_apps.spec import AppSpec, StoreSpec, ValueField
from spark_apps.testkit import Crash, ReplayDiffersError, UndeclaredRowError, plain_driver
from state.changelog.partitioner import partition_for
from state.errors import ConfigurationError, InvalidArgumentError, UnknownStoreError


class Counter:
    """Counts records in the state; with `drifts`, writes something else each time it runs."""

    def __init__(self, *, drifts: bool = False) -> None:
        self._drift = itertools.count() if drifts else itertools.repeat(0)

    def tasks(self, records: Sequence[SourceRecord]) -> Mapping[int, Sequence[SourceRecord]]:
        return {0: records}

    def run(self, state: TaskState, records: Sequence[SourceRecord]) -> list[OutputRecord]:
        count = int(state.get(b"n") or 0) + len(records) + next(self._drift)
        state.put(b"n", b"%d" % count)
        return [OutputRecord("out", b"n", b"%d" % count)]


SPEC = AppSpec("counter", "", "", sources=lambda _: ("in",), sinks=lambda _: ("out",))


@pytest.mark.parametrize("step", ["plan", "state write", "sink write", "commit"])
def test_a_batch_that_is_cut_off_is_run_again(step: str) -> None:
    driver = plain_driver(SPEC, topology=Counter())
    driver.pipe("in", "k", "v")
    driver.run(Crash.after(step))
    seen = [record.value for record in driver.output("out")]
    assert seen == ([b"1"] if step in {"sink write", "commit"} else [])
    driver.pipe("in", "k", "v")
    driver.run()
    assert [record.value for record in driver.output("out")] == [b"1", b"2"]


def test_a_topology_that_is_not_deterministic_is_found_out() -> None:
    driver = plain_driver(SPEC, topology=Counter(drifts=True))
    driver.pipe("in", "k", "v")
    driver.run(Crash.after("sink write"))
    with pytest.raises(ReplayDiffersError):
        driver.run()


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(ValueError, match="lunch"):
        Crash.after("lunch")


def test_records_carry_the_drivers_time_and_lie_where_their_key_belongs() -> None:
    seen: list[SourceRecord] = []

    class Watching(Counter):
        def run(self, state: TaskState, records: Sequence[SourceRecord]) -> list[OutputRecord]:
            seen.extend(records)
            return []

    driver = plain_driver(SPEC, topology=Watching())
    driver.pipe("in", "k", {"a": 1})
    driver.advance(5)
    driver.pipe("in", "k", None)
    driver.pipe("in", "k", b"x", partition=3)
    driver.run()
    assert [(r.partition, r.offset, r.value) for r in seen] == [
        (partition_for(b"k", 4), 0, b'{"a":1}'),
        (partition_for(b"k", 4), 1, None),
        (3, 0 if partition_for(b"k", 4) != 3 else 2, b"x"),
    ]
    assert seen[1].timestamp_ms - seen[0].timestamp_ms == 5


def test_time_never_goes_back() -> None:
    with pytest.raises(InvalidArgumentError):
        plain_driver(TICKS).advance(-1)


def test_a_store_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(UnknownStoreError, match="prices"):
        plain_driver(TICKS).store("nope")


def test_an_app_without_a_topology_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="names no topology"):
        plain_driver(SPEC)


@pytest.mark.parametrize(
    ("nullable", "value", "says"),
    [
        (False, b'{"Name": "Ada"}', None),
        (True, b'{"Name": null}', None),
        (True, b"{}", None),
        (False, b'{"Name": null}', "a row of store names lacks Name: write it, or declare it as"),
        (False, b'{"Nick": "Ada"}', "lacks Name"),
        (False, b"Ada", "is no JSON object"),
        (True, b"[]", "is no JSON object"),
    ],
)
def test_a_row_is_what_its_store_declares(nullable: bool, value: bytes, says: str | None) -> None:
    names = StoreSpec("names", "named", (ValueField("Name", "string", nullable=nullable),))

    class Written:
        def tasks(self, records: Sequence[SourceRecord]) -> Mapping[int, Sequence[SourceRecord]]:
            return {0: records}

        def run(self, _: TaskState, records: Sequence[SourceRecord]) -> list[OutputRecord]:
            return [OutputRecord(names.changelog_topic, record.key, value) for record in records]

    driver = plain_driver(replace(SPEC, stores=(names,)), topology=Written())
    driver.pipe("in", "k", "v")
    if says is None:
        driver.run()
        assert len(driver.store("names")) == 1
    else:
        with pytest.raises(UndeclaredRowError, match=says):
            driver.run()
