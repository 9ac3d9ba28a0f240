"""Key-value stores against a dict: every stack, with flush, clean reopen, crash and restore as steps."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from storekeeper.serdes.serde import BytesSerde
from storekeeper.stores.builder import StoreBuilder
from storekeeper.stores.caching import CacheBudget
from storekeeper.stores.changelog_writer import InMemoryChangelog
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.suppliers import MemorySupplier, RocksDBSupplier, StoreSupplier

KEYS = st.lists(st.sampled_from(b"\x00\x01a\xff"), max_size=3).map(bytes)
VALUES = st.binary(min_size=0, max_size=3)
ENTRIES = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=30)


class KeyValueMachine(RuleBasedStateMachine):
    """The model: what callers see, what a crash leaves, and the log."""

    @initialize(cached=st.booleans(), persistent=st.booleans(), max_entries=st.none() | st.integers(1, 4))
    def build(self, *, cached: bool, persistent: bool, max_entries: int | None) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sk-model-"))
        self.persistent = persistent
        self.evicts = cached and max_entries is not None
        supplier: StoreSupplier = MemorySupplier()
        if persistent:
            supplier = RocksDBSupplier(self.directory, profile="memory_constrained")
        self.log = InMemoryChangelog()
        self.builder = StoreBuilder("model", supplier).with_logging(self.log)
        if cached:
            budget = CacheBudget(max_bytes=None, max_entries=max_entries)
            self.builder = self.builder.with_caching(budget, send_old_values=True)
        self.cached = cached
        self.visible: dict[bytes, bytes] = {}
        self.flushed: dict[bytes, bytes] = {}
        self.store: KeyValueStore[bytes, bytes] = self.open()

    def open(self) -> KeyValueStore[bytes, bytes]:
        store: KeyValueStore[bytes, bytes] = self.builder.key_value(BytesSerde(), BytesSerde())
        if not self.persistent:
            store.restore_batch([(record.key, record.value) for record in self.log.records])
        return store

    def applied(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            if value is None:
                self.visible.pop(key, None)
            else:
                self.visible[key] = value
        if not self.cached:
            self.flushed = dict(self.visible)

    @rule(key=KEYS, value=st.none() | VALUES)
    def put(self, key: bytes, value: bytes | None) -> None:
        self.store.put(key, value)
        self.applied([(key, value)])

    @rule(entries=ENTRIES)
    def put_all(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        self.store.put_all(entries)
        self.applied(entries)

    @rule(key=KEYS, value=VALUES)
    def put_if_absent(self, key: bytes, value: bytes) -> None:
        assert self.store.put_if_absent(key, value) == self.visible.get(key)
        if key not in self.visible:
            self.applied([(key, value)])

    @rule(key=KEYS)
    def delete(self, key: bytes) -> None:
        assert self.store.delete(key) == self.visible.get(key)
        self.applied([(key, None)])

    @rule(keys=st.lists(KEYS, max_size=25))
    def get_many(self, keys: list[bytes]) -> None:
        assert self.store.get_many(keys) == [self.visible.get(key) for key in keys]
        assert [self.store.get(key) for key in keys] == [self.visible.get(key) for key in keys]

    @rule(low=st.none() | KEYS, high=st.none() | KEYS, reverse=st.booleans())
    def range(self, low: bytes | None, high: bytes | None, reverse: bool) -> None:
        expected = [
            row for row in sorted(self.visible.items())
            if (low is None or row[0] >= low) and (high is None or row[0] <= high)
        ]  # fmt: skip
        with self.store.reverse_range(low, high) if reverse else self.store.range(low, high) as rows:
            assert list(rows) == (expected[::-1] if reverse else expected)

    @rule(prefix=KEYS)
    def prefix_scan(self, prefix: bytes) -> None:
        with self.store.prefix_scan(prefix) as rows:
            assert list(rows) == [row for row in sorted(self.visible.items()) if row[0].startswith(prefix)]

    @rule()
    def flush(self) -> None:
        self.store.flush()
        self.flushed = dict(self.visible)

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.flushed = dict(self.visible)
        self.store = self.open()

    @rule()
    def crash(self) -> None:
        """What waited in the cache is gone; what was sent down, or logged, is not."""
        self.store.layers.backend.close()
        self.store = self.open()
        with self.store.all() as rows:
            found = dict(rows)
        if not self.evicts:
            assert found == self.flushed
        self.visible = found
        self.flushed = dict(found)

    @invariant()
    def the_log_rebuilds_what_is_below_the_cache(self) -> None:
        if not hasattr(self, "store"):
            return
        rebuilt: dict[bytes, bytes | None] = {record.key: record.value for record in self.log.records}
        with self.store.layers.restore_target.scan(None, None) as rows:
            assert dict(rows) == {key: value for key, value in rebuilt.items() if value is not None}
        assert len(self.store.open_iterators) == 0

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.store.close()
            shutil.rmtree(self.directory, ignore_errors=True)


KeyValueMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestKeyValueMachine: Any = KeyValueMachine.TestCase
