"""Window, session and TTL stores against dicts, with expiry, reopen and restore as steps."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from storekeeper.serdes.serde import BytesSerde
from storekeeper.topology.store import StoreKind
from tests.stores.task_store import SmallRocksDB, TaskStore, store_spec

RETENTION_MS = 100_000
KEYS = st.sampled_from([b"", b"\x00", b"a", b"a\x00", b"aa", b"\xff"])
# Around the segment boundaries of 60 s and the edges of the retention.
TIMES = st.sampled_from([0, 1, 59_999, 60_000, 60_001, 100_000, 119_999, 120_000, 160_000, 200_000, 220_000, 300_000])
VALUES = st.none() | st.sampled_from([b"1", b"2"])


class _TimedMachine(RuleBasedStateMachine):
    """What the machines share: a task, its log, stream time."""

    kind: StoreKind

    @initialize(persistent=st.booleans())
    def build(self, *, persistent: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sk-model-"))
        self.persistent = persistent
        spec = store_spec(
            self.kind, keys=BytesSerde(), values=BytesSerde(), window_size_ms=10, retention_ms=RETENTION_MS
        )
        self.task = TaskStore(spec, SmallRocksDB(self.directory) if persistent else None)
        self.rows: dict[Any, bytes] = {}
        self.stream_time_ms = -1

    @property
    def store(self) -> Any:
        return self.task.store

    def live(self, time_ms: int) -> bool:
        return time_ms >= self.stream_time_ms - RETENTION_MS + 1

    @rule()
    def end_batch(self) -> None:
        self.task.end_batch()

    @rule()
    def reopen(self) -> None:
        self.task.end_batch()
        self.task.reopen()
        if self.persistent:
            assert self.store.stream_time.observed_ms == self.stream_time_ms
        else:
            # A log holds no record of what was dropped or deleted unseen; stream time is that of the records it has.
            self.stream_time_ms = self.store.stream_time.observed_ms

    def teardown(self) -> None:
        if hasattr(self, "task"):
            self.task.close()
            shutil.rmtree(self.directory, ignore_errors=True)


class WindowMachine(_TimedMachine):
    kind = StoreKind.WINDOW

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
    kind = StoreKind.SESSION

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
    kind = StoreKind.TTL

    @rule(key=KEYS, timestamp_ms=TIMES, value=VALUES)
    def put(self, key: bytes, timestamp_ms: int, value: bytes | None) -> None:
        self.store.put(key, value, timestamp_ms)
        self.stream_time_ms = max(self.stream_time_ms, timestamp_ms)
        self.rows.pop(key, None)
        if value is not None:
            self.rows[key] = (value, timestamp_ms + RETENTION_MS)  # type: ignore[assignment]

    def alive(self) -> dict[bytes, bytes]:
        return {key: value for key, (value, end_ms) in self.rows.items() if end_ms > self.stream_time_ms}  # type: ignore[misc]

    @rule()
    def look(self) -> None:
        expected = self.alive()
        assert dict(self.store.all()) == expected
        assert self.store.get_many(list(self.rows)) == [expected.get(key) for key in self.rows]

    @rule()
    def end_batch(self) -> None:
        """Leaves the live rows, an index row for each, and nothing else."""
        self.task.end_batch()
        below = self.store.layers.expiry_index
        with below.scan(None, None) as rows:
            kept = dict(rows)
        assert kept.keys() == self.alive().keys()
        assert below.index_size() == len(kept)
        # Rows that went don't come back with a restore to an earlier time.
        self.rows = {key: row for key, row in self.rows.items() if key in kept}

    @rule()
    def reopen(self) -> None:
        self.end_batch()
        super().reopen()


_SETTINGS = settings(max_examples=40, stateful_step_count=30)
for _machine in (WindowMachine, SessionMachine, TtlMachine):
    _machine.TestCase.settings = _SETTINGS
TestWindowMachine: Any = WindowMachine.TestCase
TestSessionMachine: Any = SessionMachine.TestCase
TestTtlMachine: Any = TtlMachine.TestCase
