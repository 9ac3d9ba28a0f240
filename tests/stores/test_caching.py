"""The record cache: what waits, what goes straight through, in which order, and what a full disk does to it."""

from __future__ import annotations

import pytest

from storekeeper.errors import DiskFullError
from storekeeper.stores.bytes_store import Entry
from storekeeper.stores.caching import BULK_ROWS, CacheBudget, CachingStore, Change
from storekeeper.stores.change_logging import ChangeLoggingStore
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.record_context import RecordContext
from tests.stores.recording_store import RecordingStore

BULK: list[Entry] = [(b"bulk-%04d" % number, b"new") for number in range(BULK_ROWS)]


@pytest.fixture
def below() -> RecordingStore:
    return RecordingStore()


@pytest.fixture
def cache(below: RecordingStore) -> CachingStore:
    return CachingStore(below, RecordContext(), CacheBudget(max_bytes=None))


def test_writes_wait_and_go_down_once_per_key_in_the_order_of_the_last_write(
    cache: CachingStore, below: RecordingStore
) -> None:
    for key, value in ((b"a", b"1"), (b"b", b"1"), (b"a", b"2")):
        cache.write([(key, value)])
    assert below.writes == []
    assert cache.get(b"a") == b"2"
    cache.flush()
    assert below.writes == [([(b"b", b"1"), (b"a", b"2")], {})]


def test_metadata_wait_with_the_rows_that_they_speak_of(cache: CachingStore, below: RecordingStore) -> None:
    cache.write([(b"a", b"1")], {b"position": b"7"})
    assert below.metadata(b"position") is None
    assert cache.metadata(b"position") == b"7"
    cache.flush()
    assert below.writes == [([(b"a", b"1")], {b"position": b"7"})]


def test_a_bulk_write_goes_down_behind_what_waits_and_with_its_own_metadata(
    cache: CachingStore, below: RecordingStore
) -> None:
    cache.write([(b"bulk-0000", b"old")], {b"position": b"1"})
    cache.write(BULK, {b"position": b"2"})
    assert below.writes == [([(b"bulk-0000", b"old")], {b"position": b"1"}), (BULK, {b"position": b"2"})]
    assert cache.get(b"bulk-0000") == b"new"
    assert cache.metadata(b"position") == b"2"


def test_one_row_less_than_bulk_waits(cache: CachingStore, below: RecordingStore) -> None:
    cache.write(BULK[1:])
    assert below.writes == []


def test_a_bulk_write_leaves_what_is_cached_of_other_keys(cache: CachingStore, below: RecordingStore) -> None:
    MemoryStore.write(below, [(b"read", b"1")])
    assert cache.get(b"read") == b"1"
    cache.write(BULK)
    assert cache.get(b"read") == b"1"
    assert cache.hits == 1


def test_a_bulk_write_of_deletions_deletes(cache: CachingStore, below: RecordingStore) -> None:
    cache.write(BULK)
    cache.write([(key, None) for key, _ in BULK])
    assert cache.get(b"bulk-0001") is None
    assert below.approximate_num_entries() == 0


def test_a_bulk_write_tells_the_listener_each_key_once_with_the_value_before(below: RecordingStore) -> None:
    cache = CachingStore(below, RecordContext(), send_old_values=True)
    heard: list[Change] = []
    cache.on_flush(heard.extend)
    cache.write([(b"bulk-0001", b"old")])
    cache.write([*BULK, (b"bulk-0000", b"last")])
    assert heard[0] == (b"bulk-0001", b"old", None)
    assert (b"bulk-0001", b"new", b"old") in heard
    assert heard[1] == (b"bulk-0000", b"last", None)
    assert len(heard) == 1 + BULK_ROWS


def test_a_bulk_write_that_the_disk_refuses_is_not_served(cache: CachingStore, below: RecordingStore) -> None:
    below.full = True
    with pytest.raises(DiskFullError):
        cache.write(BULK)
    assert cache.get(b"bulk-0000") is None
    below.full = False
    cache.write(BULK)
    assert cache.get(b"bulk-0000") == b"new"


def test_a_full_disk_loses_nothing_that_waits(cache: CachingStore, below: RecordingStore) -> None:
    cache.write([(b"a", b"1")])
    below.full = True
    with pytest.raises(DiskFullError):
        cache.flush()
    assert cache.get(b"a") == b"1"
    below.full = False
    cache.flush()
    assert below.get(b"a") == b"1"


def test_a_row_that_came_and_went_between_flushes_reaches_neither_store_nor_changelog(below: RecordingStore) -> None:
    changelog = InMemoryChangelog()
    cache = CachingStore(ChangeLoggingStore(below, changelog, RecordContext()), RecordContext())
    cache.write([(b"a", b"1")])
    cache.write([(b"a", None)])
    cache.flush()
    assert changelog.records == []


def test_each_row_is_logged_with_the_time_of_its_own_last_write(below: RecordingStore) -> None:
    changelog, context = InMemoryChangelog(), RecordContext()
    cache = CachingStore(ChangeLoggingStore(below, changelog, context), context)
    for timestamp_ms, key in ((10, b"a"), (20, b"b"), (30, b"a")):
        context.timestamp_ms = timestamp_ms
        cache.write([(key, b"v")])
    context.timestamp_ms = 99
    cache.flush()
    assert [(record.key, record.timestamp_ms) for record in changelog.records] == [(b"b", 20), (b"a", 30)]


def test_evicting_a_row_that_waits_sends_all_down_in_order(below: RecordingStore) -> None:
    cache = CachingStore(below, RecordContext(), CacheBudget(max_bytes=None, max_entries=2))
    for key in (b"a", b"b", b"c"):
        cache.write([(key, b"1")])
    assert below.writes == [([(b"a", b"1"), (b"b", b"1"), (b"c", b"1")], {})]
    assert cache.cached_entries == 2
    assert cache.evictions == 1


def test_reading_keeps_a_row_from_being_the_next_to_go(below: RecordingStore) -> None:
    cache = CachingStore(below, RecordContext(), CacheBudget(max_bytes=None, max_entries=2))
    cache.write([(b"a", b"1")])
    cache.write([(b"b", b"1")])
    cache.flush()
    cache.get(b"a")
    cache.write([(b"c", b"1")])
    MemoryStore.write(below, [(b"a", b"below"), (b"b", b"below")])
    assert (cache.get(b"a"), cache.get(b"b")) == (b"1", b"below")


def test_caches_of_one_task_share_a_bound_and_account_for_every_byte(below: RecordingStore) -> None:
    budget = CacheBudget(max_bytes=1000)
    caches = [CachingStore(RecordingStore(), RecordContext(), budget) for _ in range(2)]
    for number in range(50):
        caches[number % 2].write([(b"key-%02d" % number, b"x" * 20)])
        assert budget.used_bytes <= 1000
    for cache in caches:
        cache.close()
    assert (budget.used_bytes, budget.entries) == (0, 0)


@pytest.mark.parametrize("change", [[(b"a", b"new"), *BULK], [(b"a", None)]])
def test_a_read_that_a_write_overtook_is_not_cached(below: RecordingStore, change: list[Entry]) -> None:
    MemoryStore.write(below, [(b"a", b"old")])
    inner_get = below.get
    caches: list[CachingStore] = []

    def overtaken(key: bytes) -> bytes | None:
        value = inner_get(key)
        caches[0].write(change)
        caches[0].send_down()
        return value

    below.get = overtaken  # type: ignore[method-assign]
    caches.append(CachingStore(below, RecordContext(), CacheBudget(max_bytes=None)))
    assert caches[0].get(b"a") == b"old"
    assert caches[0].cached_entries == 0
