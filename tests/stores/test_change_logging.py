"""The changelog wrapper: what is logged, with which time, in which order, and what never is."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import pytest

from storekeeper.errors import ChangelogError, DiskFullError
from storekeeper.stores.bytes_store import NO_METADATA, Entry
from storekeeper.stores.change_logging import ChangeLoggingStore
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.record_context import Header, RecordContext


class Below(MemoryStore):
    """A store that notes its calls and can run out of space."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__("below")
        self.calls = calls
        self.full = False

    def write(self, entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        if self.full:
            raise DiskFullError("no space left (injected)")
        self.calls.append("write")
        super().write(entries, metadata)

    def flush(self) -> None:
        self.calls.append("flush store")
        super().flush()

    def close(self) -> None:
        self.calls.append("close store")
        super().close()


class Log(InMemoryChangelog):
    """A changelog that notes its calls and can fail to flush."""

    def __init__(self, calls: list[str]) -> None:
        super().__init__()
        self.calls = calls
        self.unreachable = False

    def append(self, key: bytes, value: bytes | None, timestamp_ms: int, headers: Sequence[Header]) -> None:
        self.calls.append("append")
        super().append(key, value, timestamp_ms, headers)

    def append_many(self, entries: Sequence[Entry], timestamps_ms: Sequence[int], headers: Sequence[Header]) -> None:
        self.calls.append("append many")
        super().append_many(entries, timestamps_ms, headers)

    def flush(self) -> None:
        self.calls.append("flush log")
        if self.unreachable:
            raise ChangelogError("the broker is away (injected)")


@pytest.fixture
def calls() -> list[str]:
    return []


@pytest.fixture
def below(calls: list[str]) -> Below:
    return Below(calls)


@pytest.fixture
def log(calls: list[str]) -> Log:
    return Log(calls)


@pytest.fixture
def context() -> RecordContext:
    context = RecordContext()
    context.timestamp_ms, context.headers = 7, [("source", b"x")]
    return context


@pytest.fixture
def store(below: Below, log: Log, context: RecordContext) -> ChangeLoggingStore:
    return ChangeLoggingStore(below, log, context)


def test_changes_are_logged_in_their_order_after_they_were_written(
    store: ChangeLoggingStore, log: Log, calls: list[str]
) -> None:
    store.write(((b"b", b"1"),))
    store.write([(b"b", None), (b"a", b"2"), (b"b", b"3")])
    headers = [("source", b"x")]
    assert [tuple(record) for record in log.records] == [
        (b"b", b"1", 7, headers), (b"b", None, 7, headers), (b"a", b"2", 7, headers), (b"b", b"3", 7, headers),
    ]  # fmt: skip
    assert calls == ["write", "append", "write", "append many"]


def test_rows_may_come_one_at_a_time(store: ChangeLoggingStore, below: Below, log: Log) -> None:
    store.write((key, b"1") for key in (b"a", b"b"))
    assert [key for key, _ in below.scan(None, None)] == [record.key for record in log.records] == [b"a", b"b"]


def test_a_write_that_fails_is_never_logged(store: ChangeLoggingStore, below: Below, log: Log) -> None:
    below.full = True
    writes: list[Callable[[], None]] = [
        lambda: store.write(((b"a", b"1"),)),
        lambda: store.write([(b"a", b"1"), (b"b", b"1")]),
        lambda: store.write_stamped([(b"a", b"1")], [1], {}),
    ]
    for write in writes:
        with pytest.raises(DiskFullError):
            write()
    assert log.records == []


def test_neither_metadata_nor_deleted_ranges_are_logged(store: ChangeLoggingStore, below: Below, log: Log) -> None:
    store.write((), {b"position": b"1"})
    store.write_stamped([], [], {b"more": b"2"})
    below.write([(b"a", b"1")])
    store.delete_range(b"a", b"b")
    assert (store.metadata(b"position"), store.metadata(b"more"), store.get(b"a"), log.records) == (
        b"1",
        b"2",
        None,
        [],
    )


def test_rows_that_were_made_at_different_times_keep_them(store: ChangeLoggingStore, log: Log) -> None:
    store.write_stamped([(b"a", b"1"), (b"b", None)], [3, 5], {})
    assert [(record.key, record.value, record.timestamp_ms) for record in log.records] == [
        (b"a", b"1", 3),
        (b"b", None, 5),
    ]


def test_the_store_is_safe_before_the_changelog(store: ChangeLoggingStore, calls: list[str]) -> None:
    store.flush()
    assert calls == ["flush store", "flush log"]


def test_closing_flushes_the_changelog_once(store: ChangeLoggingStore, calls: list[str]) -> None:
    store.close()
    store.close()
    assert calls == ["flush log", "close store", "close store"]


def test_a_changelog_that_is_away_does_not_keep_the_store_open(
    store: ChangeLoggingStore, below: Below, log: Log
) -> None:
    log.unreachable = True
    with pytest.raises(ChangelogError):
        store.close()
    assert not below.is_open
    store.close()


def test_a_row_that_the_store_dropped_by_itself_is_logged_behind_the_write_that_put_it(
    store: ChangeLoggingStore, below: Below, log: Log
) -> None:
    def write_and_drop(entries: Iterable[Entry], metadata: Mapping[bytes, bytes | None] = NO_METADATA) -> None:
        MemoryStore.write(below, [(key, value) for key, value in entries if key != b"a"], metadata)
        store.log_deletion(b"a")

    below.write = write_and_drop  # type: ignore[method-assign]
    store.write([(b"a", b"1"), (b"b", b"1")])
    store.write_stamped([(b"a", b"2")], [3], {})
    assert [(record.key, record.value) for record in log.records] == [
        (b"a", b"1"), (b"b", b"1"), (b"a", None), (b"a", b"2"), (b"a", None),
    ]  # fmt: skip


def test_a_row_that_is_back_is_not_logged_as_dropped(store: ChangeLoggingStore, below: Below, log: Log) -> None:
    store.log_deletion(b"gone")
    store.log_deletion(b"back")
    below.write([(b"back", b"1")])
    store.flush()
    store.flush()
    assert [(record.key, record.value) for record in log.records] == [(b"gone", None)]
