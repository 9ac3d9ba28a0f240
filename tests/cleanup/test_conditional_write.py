from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.changelog.log_record import CleanupAction, LogRecord, cleanup_headers
from storekeeper.cleanup.conditional_write import ConditionalWriter

OURS = "c1"
KEYS = [b"a", b"b", b"c", b"d"]


def tombstone(key: bytes) -> LogRecord:
    return LogRecord(0, 0, key, None, cleanup_headers([], OURS, CleanupAction.DELETE, 0))


@dataclass
class FakeLog:
    """A log in memory. `others` says which keys somebody else writes before and after each of our records."""

    others: list[tuple[list[bytes], list[bytes]]] = field(default_factory=list)
    records: list[tuple[LogRecord, str]] = field(default_factory=list)
    read_up_to: int = 0

    def foreign(self, keys: Sequence[bytes]) -> None:
        for key in keys:
            self.records.append((LogRecord(len(self.records), 0, key, b"fresh"), "committed"))

    def append(self, records: Sequence[LogRecord]) -> list[int]:
        offsets = []
        for record in records:
            before, after = self.others.pop(0) if self.others else ([], [])
            self.foreign(before)
            offsets.append(len(self.records))
            self.records.append((record._replace(offset=offsets[-1]), "open"))
            self.foreign(after)
        return offsets

    def commit(self) -> None:
        self._end("committed")

    def abort(self) -> None:
        self._end("aborted")

    def read_to(self, end: int) -> Iterator[LogRecord]:
        start, self.read_up_to = self.read_up_to, end
        yield from (record for record, _ in self.records[start:end])

    def rows(self) -> dict[bytes | None, bytes]:
        found: dict[bytes | None, bytes] = {}
        for record, state in self.records:
            if state == "committed":
                if record.value is None:
                    found.pop(record.key, None)
                else:
                    found[record.key] = record.value
        return found

    def _end(self, state: str) -> None:
        self.records = [(record, state if was == "open" else was) for record, was in self.records]


def writer_of(log: FakeLog) -> ConditionalWriter:
    return ConditionalWriter(log, lambda record: record.action_of(OURS) is not None)


keys = st.lists(st.sampled_from(KEYS), max_size=2)


@given(st.lists(st.tuples(keys, keys), max_size=12))
def test_whoever_writes_a_key_at_any_moment_finds_it_there_and_all_others_are_gone(
    others: list[tuple[list[bytes], list[bytes]]],
) -> None:
    log = FakeLog()
    log.foreign(KEYS)
    log.read_up_to = len(log.records)
    old = dict.fromkeys(range(len(log.records)))
    log.others = list(others)
    written = writer_of(log).write([tombstone(key) for key in KEYS])
    refreshed = {record.key for record, _ in log.records[len(old) :] if record.value is not None}
    assert log.rows().keys() == refreshed
    assert written.records == sum(state == "committed" and record.value is None for record, state in log.records)
    assert written.touched <= refreshed


def test_a_key_written_in_front_is_left_alone_and_the_others_are_deleted_in_a_second_attempt() -> None:
    log = FakeLog(others=[([], []), ([b"b"], [])])
    written = writer_of(log).write([tombstone(b"a"), tombstone(b"b")])
    assert (written.records, set(written.touched)) == (1, {b"b"})
    assert [state for record, state in log.records if record.value is None] == ["aborted", "aborted", "committed"]


def test_keys_that_were_seen_once_are_not_tried_again() -> None:
    log = FakeLog(others=[([], [b"b"])])
    writer = writer_of(log)
    writer.write([tombstone(b"a")])
    log.foreign([b"c"])
    writer.write([tombstone(b"d")])
    before = len(log.records)
    assert writer.write([tombstone(b"b"), tombstone(b"c")]).touched == {b"b", b"c"}
    assert len(log.records) in (before, before + 2)
    assert writer.write([tombstone(b"c")]).records == 0
    assert log.rows()[b"c"] == b"fresh"


def test_a_failure_on_the_way_makes_nothing_visible() -> None:
    class Failing(FakeLog):
        def read_to(self, end: int) -> Iterator[LogRecord]:
            raise OSError("no broker")

    log = Failing()
    with pytest.raises(OSError, match="no broker"):
        writer_of(log).write([tombstone(b"a")])
    assert [state for _, state in log.records] == ["aborted"]
