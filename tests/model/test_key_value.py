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
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.topology.records import StoreChange
from tests.stores.task_store import SmallRocksDB, TaskStore, store_spec

KEYS = st.lists(st.sampled_from(b"\x00\x01a\xff"), max_size=3).map(bytes)
VALUES = st.binary(min_size=0, max_size=3)
ENTRIES = st.lists(st.tuples(KEYS, st.none() | VALUES), max_size=30)


class KeyValueMachine(RuleBasedStateMachine):
    """The model: what a task sees, what a crash leaves, and the log."""

    @initialize(batches=st.booleans(), persistent=st.booleans())
    def build(self, *, batches: bool, persistent: bool) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sk-model-"))
        self.batches = batches  # else each write is a batch of its own
        supplier = SmallRocksDB(self.directory) if persistent else None
        self.task = TaskStore(store_spec(keys=BytesSerde(), values=BytesSerde()), supplier)
        self.visible: dict[bytes, bytes] = {}
        self.applied_rows: dict[bytes, bytes] = {}

    @property
    def store(self) -> KeyValueStore[bytes, bytes]:
        store: KeyValueStore[bytes, bytes] = self.task.store
        return store

    def applied(self, entries: list[tuple[bytes, bytes | None]]) -> None:
        for key, value in entries:
            if value is None:
                self.visible.pop(key, None)
            else:
                self.visible[key] = value
        if not self.batches:
            self.end_batch()

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
    def end_batch(self) -> None:
        self.task.end_batch()
        self.applied_rows = dict(self.visible)

    @rule()
    def give_up(self) -> None:
        """The batch is gone; its task is built anew over the same rows."""
        self.task.give_up()
        self.visible = dict(self.applied_rows)

    @rule(orderly=st.booleans())
    def end_process(self, *, orderly: bool) -> None:
        """What waited in the batch is gone; what is in the changelog is not, also where the backend forgets."""
        self.task.reopen() if orderly else self.task.crash()
        self.visible = dict(self.applied_rows)

    @rule()
    def lose_the_disk(self) -> None:
        """A committed batch that was not applied is read from the changelog."""
        self.task.log += [StoreChange("rows", b"other", b"v", -1)]
        self.task.crash()
        self.applied_rows[b"other"] = b"v"
        self.visible = dict(self.applied_rows)

    @invariant()
    def the_log_rebuilds_what_is_below_the_transaction(self) -> None:
        if not hasattr(self, "task"):
            return
        rebuilt: dict[bytes, bytes | None] = {change.key: change.value for change in self.task.log}
        with self.task.backend.scan(None, None) as rows:
            below = dict(rows)
        assert below == {key: value for key, value in rebuilt.items() if value is not None} == self.applied_rows
        assert len(self.store.open_iterators) == 0

    def teardown(self) -> None:
        if hasattr(self, "task"):
            self.task.close()
            shutil.rmtree(self.directory, ignore_errors=True)


KeyValueMachine.TestCase.settings = settings(max_examples=40, stateful_step_count=30)
TestKeyValueMachine: Any = KeyValueMachine.TestCase
