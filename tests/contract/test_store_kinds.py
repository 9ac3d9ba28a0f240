"""What store kinds promise beyond the peers' cases, on every backend."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from storekeeper.errors import (
    ConfigurationError,
    InvalidTimestampError,
    InvalidWindowError,
    NullKeyError,
    StoreClosedError,
)
from storekeeper.serdes.json import JsonSerde
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.versioned import NOT_PUT_MS, VersionedKeyValueStore
from storekeeper.stores.windowed import Windowed
from tests.conformance.backend import Backend

UTF8 = Utf8Serde()


@pytest.fixture(params=["plain", "cached"])
def builder(request: pytest.FixtureRequest, backend: Backend) -> StoreBuilder:
    made = StoreBuilder("kinds", backend.supplier).with_logging(InMemoryChangelog())
    return made.with_caching(CacheBudget(max_entries=2)) if request.param == "cached" else made


@pytest.fixture
def versioned(builder: StoreBuilder) -> VersionedKeyValueStore[str, str]:
    return builder.versioned_key_value(UTF8, UTF8, history_retention_ms=100)


def test_versions_take_their_place_by_time(versioned: VersionedKeyValueStore[str, str]) -> None:
    assert versioned.put("a", "one", 10) == -1
    assert versioned.put("a", "three", 30) == -1
    assert versioned.put("a", "two", 20) == 30
    assert versioned.put("aa", "other", 25) == -1
    assert versioned.get("a") == ("three", 30, -1)
    assert versioned.get("a", as_of=9) is None
    assert [versioned.get("a", as_of=at) for at in (10, 19)] == [("one", 10, 20)] * 2
    assert versioned.get("a", as_of=29) == ("two", 20, 30)
    assert versioned.get("a", as_of=10**15) == ("three", 30, -1)
    assert versioned.history("a", 15, 25) == [("one", 10, 20), ("two", 20, 30)]
    assert versioned.history("a", 30, 40) == [("three", 30, -1)]


def test_a_deletion_is_a_version(versioned: VersionedKeyValueStore[str, str]) -> None:
    versioned.put("a", "one", 10)
    assert versioned.delete("a", 20) == ("one", 10, -1)
    assert versioned.get("a") is None
    assert versioned.get("a", as_of=15) == ("one", 10, 20)
    versioned.put("a", "two", 30)
    assert versioned.get("a", as_of=25) is None
    assert versioned.history("a", 0, 100) == [("one", 10, 20), ("two", 30, -1)]


def test_history_ends_at_the_retention(versioned: VersionedKeyValueStore[str, str]) -> None:
    versioned.put("a", "one", 10)
    versioned.put("a", "two", 50)
    versioned.put("old", "kept", 5)
    versioned.put("a", "three", 160)
    assert versioned.put("late", "x", 59) == NOT_PUT_MS
    assert versioned.put("late", "x", 60) == -1
    assert versioned.stream_time.dropped_total == 1
    assert versioned.get("a", as_of=59) is None
    assert versioned.get("a", as_of=60) == ("two", 50, 160)
    assert versioned.get("old", as_of=5) == ("kept", 5, -1)
    versioned.put("a", "four", 200)
    versioned.flush()
    with versioned.layers.restore_target.scan(None, None) as rows:
        kept = [data[1:] for key, data in rows if key.startswith(b"a")]
    assert kept == [b"four", b"three", b"two"]


def test_versions_survive_a_restore(builder: StoreBuilder, backend: Backend) -> None:
    log = InMemoryChangelog()
    first = builder.with_logging(log).versioned_key_value(UTF8, UTF8, history_retention_ms=100)
    first.put("a", "one", 10)
    first.put("a", "two", 500)
    first.flush()
    second = StoreBuilder("restored", backend.supplier).versioned_key_value(UTF8, UTF8, history_retention_ms=100)
    second.restore_batch([(record.key, record.value) for record in log.records])
    assert second.get("a") == ("two", 500, -1)
    assert second.put("b", "late", 399) == NOT_PUT_MS
    first.close()
    second.close()


def test_expired_rows_are_invisible_at_once_and_swept_in_steps(builder: StoreBuilder) -> None:
    log = InMemoryChangelog()
    store = builder.with_logging(log).ttl_key_value(UTF8, UTF8, ttl_ms=100)
    for number in range(5):
        store.put(f"k{number}", "v", 1000 + number)
    store.put("own", "v", 1000, ttl_ms=500)
    store.flush()
    store.observe(1102)
    assert [key for key, _ in store.all()] == ["k3", "k4", "own"]
    assert [key for key, _ in store.reverse_range("k1", "k3")] == ["k3"]
    assert [key for key, _ in store.prefix_scan("k")] == ["k3", "k4"]
    assert store.get_many(["k0", "k4"]) == [None, "v"]
    assert [store.sweep(limit=2), store.sweep(limit=2), store.sweep(limit=2)] == [2, 1, 0]
    assert [record.key for record in log.records if record.value is None] == [b"k0", b"k1", b"k2"]
    assert store.delete("k3") == "v"
    with pytest.raises(NullKeyError):
        store.get(None)  # type: ignore[arg-type]
    store.close()


def test_a_restore_rebuilds_expiry_and_stream_time(builder: StoreBuilder, backend: Backend) -> None:
    log = InMemoryChangelog()
    first = builder.with_logging(log).ttl_key_value(UTF8, UTF8, ttl_ms=100)
    first.put("old", "v", 1000)
    first.put("new", "v", 2000)
    first.close()
    second = StoreBuilder("restored", backend.supplier).ttl_key_value(UTF8, UTF8, ttl_ms=100)
    second.restore_batch([(record.key, record.value) for record in log.records])
    assert dict(second.all()) == {"new": "v"}
    assert second.sweep() == 1
    second.close()


def test_a_transaction_is_all_or_nothing(builder: StoreBuilder) -> None:
    store = builder.key_value(UTF8, UTF8)
    store.put("a", "1")
    with store.transaction() as rows:
        rows.put("a", "2")
        rows.put_all([("b", "2"), ("c", "2")])
        rows.delete("c")
        assert (rows.get("a"), [key for key, _ in rows.all()]) == ("2", ["a", "b"])
        assert (store.get("a"), store.get("b")) == ("1", None)
    assert dict(store.all()) == {"a": "2", "b": "2"}

    def fail_half_way() -> None:
        with store.transaction() as rows:
            rows.put("a", "3")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail_half_way()
    assert store.get("a") == "2"
    store.close()


def test_the_position_is_that_of_the_last_record_that_wrote(builder: StoreBuilder, backend: Backend) -> None:
    store = builder.key_value(UTF8, UTF8)
    store.context.move_to("pos", 0, 7, timestamp_ms=1)
    store.put("a", "1")
    store.context.move_to("pos", 1, 3)
    store.put_all([("b", "1")])
    store.context.move_to("pos", 0, 8)
    assert store.get("a") == "1"
    assert store.position == {"pos": {"0": 7, "1": 3}}
    store.close()
    again = builder.key_value(UTF8, UTF8)
    assert again.position == ({"pos": {"0": 7, "1": 3}} if backend.persistent else {})
    again.close()


def test_timestamped_values(builder: StoreBuilder) -> None:
    store = builder.timestamped_key_value(UTF8, JsonSerde())
    store.put("a", ValueAndTimestamp([1], 5))
    assert store.get("a") == ValueAndTimestamp([1], 5)
    store.close()


def test_windows_know_their_end(builder: StoreBuilder) -> None:
    store = builder.window(UTF8, UTF8, window_size_ms=10, retention_ms=100)
    store.put("a", "1", 20)
    assert list(store.all()) == [(Windowed("a", 20, 30), "1")]
    store.close()


def test_duplicates_are_not_overwritten_after_a_reopen(backend: Backend) -> None:
    builder = StoreBuilder("duplicates", backend.supplier)
    if not backend.persistent:
        pytest.skip("memory forgets")
    for value in ("1", "2"):
        store = builder.window(UTF8, UTF8, window_size_ms=10, retention_ms=100, retain_duplicates=True)
        store.put("a", value, 5)
        store.close()
    store = builder.window(UTF8, UTF8, window_size_ms=10, retention_ms=100, retain_duplicates=True)
    assert (list(store.fetch("a", 0, 9)), store.fetch_one("a", 5)) == ([(5, "1"), (5, "2")], "2")
    store.close()


def test_expired_segments_leave_the_disk(builder: StoreBuilder) -> None:
    store = builder.window(UTF8, UTF8, window_size_ms=10, retention_ms=120_000)
    for start_ms in range(0, 600_000, 30_000):
        store.put("a", "1", start_ms)
    store.flush()
    segments = store.layers.segments
    assert segments is not None
    assert segments.segments == (7, 8, 9)
    with store.layers.backend.scan(None, None) as rows:
        assert sum(1 for _ in rows) == 6
    assert [start_ms for start_ms, _ in store.fetch("a", 0, 10**9)] == [480_000, 510_000, 540_000, 570_000]
    store.close()


WRONG: list[Callable[[StoreBuilder], object]] = [
    lambda b: b.window(UTF8, UTF8, window_size_ms=100, retention_ms=99),
    lambda b: b.window(UTF8, UTF8, window_size_ms=0, retention_ms=99),
    lambda b: b.session(UTF8, UTF8, retention_ms=0),
    lambda b: b.ttl_key_value(UTF8, UTF8, ttl_ms=0),
    lambda b: b.versioned_key_value(UTF8, UTF8, history_retention_ms=-1),
]


@pytest.mark.parametrize("build", WRONG)
def test_settings_that_can_not_work_are_refused(build: Callable[[StoreBuilder], object]) -> None:
    with pytest.raises(ConfigurationError):
        build(StoreBuilder("wrong"))


def test_wrong_times_are_refused() -> None:
    sessions = StoreBuilder("sessions").session(UTF8, UTF8, retention_ms=100)
    with pytest.raises(InvalidWindowError):
        sessions.put("a", 5, 4, "1")
    with pytest.raises(InvalidTimestampError):
        sessions.put("a", -1, 4, "1")
    with pytest.raises(InvalidTimestampError):
        StoreBuilder("ttl").ttl_key_value(UTF8, UTF8, ttl_ms=None).put("a", "1", 1 << 63)


def test_logging_is_per_store() -> None:
    log = InMemoryChangelog()
    builder = StoreBuilder("logged").with_logging(log)
    silent = StoreBuilder("silent").key_value(UTF8, UTF8)
    silent.put("a", "1")
    assert log.records == []
    loud = builder.key_value(UTF8, UTF8)
    loud.context.timestamp_ms = 5
    loud.context.headers = [("source", b"x")]
    loud.put("a", "1")
    loud.put_all([("b", "2"), ("c", None)])
    assert [tuple(record) for record in log.records] == [
        (b"a", b"1", 5, [("source", b"x")]),
        (b"b", b"2", 5, [("source", b"x")]),
        (b"c", None, 5, [("source", b"x")]),
    ]


def test_caches_of_one_task_share_their_bound() -> None:
    budget = CacheBudget(max_bytes=1000)
    one = StoreBuilder("one").with_caching(budget).key_value(UTF8, UTF8)
    two = StoreBuilder("two").with_caching(budget).key_value(UTF8, UTF8)
    one.put("a", "v" * 600)
    two.put("b", "v" * 600)
    assert budget.used_bytes <= 1000
    assert (one.get("a"), two.get("b")) == ("v" * 600, "v" * 600)
    one.close()
    two.close()
    assert (budget.used_bytes, budget.entries) == (0, 0)
    with pytest.raises(StoreClosedError):
        one.put("a", "1")
