"""Window, session and TTL stores against dicts, with expiry, reopen and restore as steps."""

from __future__ import annotations

import shutil
import tempfile
from abc import abstractmethod
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from storekeeper.serdes.serde import BytesSerde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.suppliers import MemorySupplier, RocksDBSupplier

RETENTION_MS = 100_000
KEYS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"aa", b"\xff"])
# Around the segment boundaries of 60 s and the edges of the retention.
TIMES = st.sampled_from([0, 1, 59_999, 60_000, 60_001, 100_000, 119_999, 120_000, 160_000, 200_000, 220_000, 300_000])
VALUES = st.none() | st.sampled_from([b"1", b"2"])


class _TimedMachine(RuleBasedStateMachine):
    """What the machines share: a stack, a log, stream time."""

    store: Any

    @initialize(cached=st.booleans(), persistent=st.booleans())
    def build(self, *, cached: bool, persistent: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sk-model-"))
        self.persistent = persistent
        self.log = InMemoryChangelog()
        supplier = RocksDBSupplier(self.directory, profile="memory_constrained") if persistent else MemorySupplier()
        self.builder = StoreBuilder("model", supplier).with_logging(self.log)
        if cached:
            self.builder = self.builder.with_caching(CacheBudget(max_entries=3))
        self.rows: dict[Any, bytes] = {}
        self.stream_time_ms = -1
        self.store = self.open()

    @abstractmethod
    def open(self) -> Any:
        """The store under test, on the same directory and log each time."""

    def restored(self) -> Any:
        store = self.open()
        if not self.persistent:
            store.restore_batch([(record.key, record.value) for record in self.log.records])
        return store

    def live(self, time_ms: int) -> bool:
        return time_ms >= self.stream_time_ms - RETENTION_MS + 1

    @rule()
    def flush(self) -> None:
        self.store.flush()

    @rule()
    def expire(self) -> None:
        self.store.expire()

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.restored()
        if self.persistent:
            assert self.store.stream_time.observed_ms == self.stream_time_ms
        else:
            # A log holds no record of what was dropped or deleted unseen; stream time is that of the records it has.
            self.stream_time_ms = self.store.stream_time.observed_ms

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory, ignore_errors=True)


class WindowMachine(_TimedMachine):
    def open(self) -> Any:
        return self.builder.window(BytesSerde(), BytesSerde(), window_size_ms=10, retention_ms=RETENTION_MS)

    @rule(key=KEYS, start_ms=TIMES, value=st.sampled_from([b"1", b"2"]))
    def put(self, key: bytes, start_ms: int, value: bytes) -> None:
        dropped = self.store.stream_time.dropped_total
        self.store.put(key, value, start_ms)
        self.stream_time_ms = max(self.stream_time_ms, start_ms)
        if self.live(start_ms):
            self.rows[key, start_ms] = value
        else:
            assert self.store.stream_time.dropped_total == dropped + 1

    @rule(key=KEYS, start_ms=TIMES)
    def delete(self, key: bytes, start_ms: int) -> None:
        if self.live(start_ms) and start_ms <= self.stream_time_ms:
            self.store.put(key, None, start_ms)
            self.rows.pop((key, start_ms), None)

    def expected(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int) -> list[Any]:
        return [
            (key, start_ms, value) for (key, start_ms), value in sorted(self.rows.items())
            if self.live(start_ms) and from_ms <= start_ms <= to_ms
            and (low is None or key >= low) and (high is None or key <= high)
        ]  # fmt: skip

    @rule(key=KEYS, from_ms=TIMES, to_ms=TIMES)
    def fetch(self, key: bytes, from_ms: int, to_ms: int) -> None:
        expected = [(start_ms, value) for _, start_ms, value in self.expected(key, key, from_ms, to_ms)]
        assert list(self.store.fetch(key, from_ms, to_ms)) == expected
        assert list(self.store.backward_fetch(key, from_ms, to_ms)) == expected[::-1]
        assert self.store.fetch_one(key, from_ms) == dict(expected).get(from_ms) or from_ms > to_ms

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, from_ms=TIMES, to_ms=TIMES)
    def fetch_range(self, low: bytes | None, high: bytes | None, from_ms: int, to_ms: int) -> None:
        found = [(w.key, w.start_ms, value) for w, value in self.store.fetch_range(low, high, from_ms, to_ms)]
        assert found == self.expected(low, high, from_ms, to_ms)
        assert [w.start_ms for w, _ in self.store.backward_all()] == [
            start_ms for _, start_ms, _ in self.expected(None, None, 0, 1 << 62)[::-1]
        ]


class SessionMachine(_TimedMachine):
    def open(self) -> Any:
        return self.builder.session(BytesSerde(), BytesSerde(), retention_ms=RETENTION_MS)

    @rule(key=KEYS, one_ms=TIMES, two_ms=TIMES, value=st.sampled_from([b"1", b"2"]))
    def put(self, key: bytes, one_ms: int, two_ms: int, value: bytes) -> None:
        start_ms, end_ms = sorted((one_ms, two_ms))
        self.store.put(key, start_ms, end_ms, value)
        self.stream_time_ms = max(self.stream_time_ms, end_ms)
        if self.live(end_ms):
            self.rows[key, end_ms, start_ms] = value

    @rule(key=KEYS, one_ms=TIMES, two_ms=TIMES)
    def remove(self, key: bytes, one_ms: int, two_ms: int) -> None:
        start_ms, end_ms = sorted((one_ms, two_ms))
        self.store.remove(key, start_ms, end_ms)
        self.rows.pop((key, end_ms, start_ms), None)

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, earliest_end_ms=TIMES, latest_start_ms=TIMES)
    def find(self, low: bytes | None, high: bytes | None, earliest_end_ms: int, latest_start_ms: int) -> None:
        expected = [
            (key, start_ms, end_ms, value) for (key, end_ms, start_ms), value in sorted(self.rows.items())
            if self.live(end_ms) and end_ms >= earliest_end_ms and start_ms <= latest_start_ms
            and (low is None or key >= low) and (high is None or key <= high)
        ]  # fmt: skip
        found = self.store.find_sessions_range(low, high, earliest_end_ms, latest_start_ms)
        assert [(*session, value) for session, value in found] == expected
        if low is not None:
            of_key = list(self.store.find_sessions(low, earliest_end_ms, latest_start_ms))
            assert [session.key for session, _ in of_key] == [low] * len(of_key)


class TtlMachine(_TimedMachine):
    def open(self) -> Any:
        return self.builder.ttl_key_value(BytesSerde(), BytesSerde(), ttl_ms=None)

    @rule(key=KEYS, timestamp_ms=TIMES, ttl_ms=st.none() | st.sampled_from([1, 60_000, 100_000]), value=VALUES)
    def put(self, key: bytes, timestamp_ms: int, ttl_ms: int | None, value: bytes | None) -> None:
        self.store.put(key, value, timestamp_ms, ttl_ms)
        self.stream_time_ms = max(self.stream_time_ms, timestamp_ms)
        self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = (value, None if ttl_ms is None else timestamp_ms + ttl_ms)  # type: ignore[assignment]

    @rule(limit=st.integers(1, 4))
    def expire(self, limit: int) -> None:
        assert self.store.sweep(limit) <= limit
        self.forget_swept()

    def forget_swept(self) -> None:
        """Takes rows out of the model that are gone for good: not even a restore to an earlier time revives them."""
        self.store.flush()
        with self.store.layers.expiry_index.scan(None, None) as rows:
            kept = {key for key, _ in rows}
        self.rows = {
            key: row for key, row in self.rows.items()
            if key in kept or row[1] is None or row[1] > self.stream_time_ms
        }  # fmt: skip

    @rule()
    def look(self) -> None:
        expected = {
            key: value for key, (value, end_ms) in self.rows.items()
            if end_ms is None or end_ms > self.stream_time_ms
        }  # fmt: skip
        assert dict(self.store.all()) == expected
        assert self.store.get_many(list(self.rows)) == [expected.get(key) for key in self.rows]

    @rule()
    def a_full_sweep_leaves_one_index_row_for_each_row_that_can_expire(self) -> None:
        self.store.flush()
        while self.store.sweep(3):
            pass
        below = self.store.layers.expiry_index
        with below.scan(None, None) as rows:
            kept = dict(rows)
        alive = {
            key for key, (_, end_ms) in self.rows.items()
            if end_ms is None or end_ms > self.stream_time_ms
        }  # fmt: skip
        assert kept.keys() == alive
        assert below.index_size() == sum(self.rows[key][1] is not None for key in alive)
        self.forget_swept()


_SETTINGS = settings(max_examples=40, stateful_step_count=30)
for _machine in (WindowMachine, SessionMachine, TtlMachine):
    _machine.TestCase.settings = _SETTINGS
TestWindowMachine: Any = WindowMachine.TestCase
TestSessionMachine: Any = SessionMachine.TestCase
TestTtlMachine: Any = TtlMachine.TestCase
