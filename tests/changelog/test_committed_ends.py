"""The end of what is committed is where readers have reached what was written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.changelog import committed_ends
from storekeeper.changelog.errors import OpenTransactionError
from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.kafka.connection import Kafka

KAFKA = Kafka("broker:9092")


class PlayedBroker:
    """Reports ends; with each wait a second passes and `step` may change them."""

    def __init__(self, written: dict[int, int], stable: dict[int, int], step: Callable[[], object] = int) -> None:
        self.written, self.stable, self._step = written, stable, step
        self.now_s = 0.0
        self.told: list[tuple[float, TopicAndPartition]] = []

    def offsets_of(
        self, _: Kafka, wanted: Mapping[TopicAndPartition, int], *, isolation: str = "read_committed"
    ) -> dict[TopicAndPartition, int]:
        ends = self.written if isolation == "read_uncommitted" else self.stable
        return {(topic, partition): ends[partition] for topic, partition in wanted}

    def sleep(self, _: float) -> None:
        self.now_s += 1
        self._step()

    def asked(self) -> dict[int, int]:
        time = SimpleNamespace(monotonic=lambda: self.now_s, sleep=self.sleep)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(committed_ends, "offsets_of", self.offsets_of)
            patch.setattr(committed_ends, "time", time)
            asked = [("t", partition) for partition in self.written]
            found = committed_ends.committed_ends(KAFKA, asked, lambda at: self.told.append((self.now_s, at)))
        return {partition: end for (_, partition), end in found.items()}


def test_without_an_open_transaction_nothing_waits() -> None:
    broker = PlayedBroker({0: 7, 1: 0}, {0: 7, 1: 0})
    assert broker.asked() == {0: 7, 1: 0}
    assert broker.now_s == 0


def test_it_waits_for_each_partition_and_for_no_later_transaction() -> None:
    broker = PlayedBroker({0: 7, 1: 9}, {0: 3, 1: 9})

    def step() -> None:
        broker.written |= {0: 90, 1: 95}  # writers that go on must not be waited for
        broker.stable |= {0: 7 if broker.now_s > 2 else 3, 1: 11}

    broker._step = step
    assert broker.asked() == {0: 7, 1: 11}
    assert broker.told == [(2.0, ("t", 0))], "who waits longer than a second says so"


def test_a_transaction_that_stays_open_is_named() -> None:
    with pytest.raises(OpenTransactionError, match="open in t-1 since offset 3 and hides what is committed"):
        PlayedBroker({0: 7, 1: 9}, {0: 7, 1: 3}).asked()


@given(st.lists(st.tuples(st.sampled_from("ABC"), st.sampled_from(["write", "commit", "abort"])), max_size=30))
def test_every_record_that_was_committed_lies_in_front_of_it(steps: list[tuple[str, str]]) -> None:
    """Writers with transactions of their own, and a restore that asks when they have taken their steps."""
    log: list[str] = []
    began: dict[str, int] = {}
    committed: list[int] = []
    mine: dict[str, list[int]] = {writer: [] for writer in "ABC"}
    for writer, step in steps:
        if step == "write":
            began.setdefault(writer, len(log))
            mine[writer].append(len(log))
            log.append(writer)
        elif writer in began:
            committed += mine[writer] if step == "commit" else []
            del began[writer]
            mine[writer] = []
            log.append("mark")

    def ends_one() -> None:
        began.pop(min(began, key=lambda writer: began[writer]))
        log.append("mark")
        broker.stable[0] = min(began.values(), default=len(log))

    broker = PlayedBroker({0: len(log)}, {0: min(began.values(), default=len(log))}, ends_one)
    assert all(offset < broker.asked()[0] for offset in committed)
