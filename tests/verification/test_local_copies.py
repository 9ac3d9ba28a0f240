"""The local stores of tasks as `verify` sees them: right for every kind of store, and every forged row is found."""

from __future__ import annotations

import itertools
import random
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.log_record import CleanupAction, LogRecord, cleanup_headers
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.conditional_write import KafkaTentativeLog
from storekeeper.clock import SystemClock
from storekeeper.engine.transaction import Transaction
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.rocksdb_sealed import open_sealed
from storekeeper.topology import Store, StoreKind, StreamsBuilder, sessions, tumbling
from storekeeper.topology.operators.process import ProcessorContext
from storekeeper.verification.copies import verify_copies
from storekeeper.verification.local_copies import LocalCopies
from tests.engine.task_runs import TaskRuns

pytestmark = pytest.mark.broker

NOW_MS = int(time.time() * 1000) - 3_600_000
SECOND = timedelta(seconds=1)
_numbers = itertools.count()
Describe = Callable[[StreamsBuilder, str], object]


class Putting:
    """Puts each record's value."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.rows = context.store("rows")

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.rows.put(key, value, timestamp_ms)


def table(streams: StreamsBuilder, topic: str) -> None:
    streams.stream(topic, int).group_by_key().count(store="rows")


def windows(streams: StreamsBuilder, topic: str) -> None:
    rows = Store("rows", int, retention=20 * SECOND)
    streams.stream(topic, int).group_by_key().windowed_by(tumbling(5 * SECOND)).count(store=rows)


def session_windows(streams: StreamsBuilder, topic: str) -> None:
    rows = Store("rows", int, retention=20 * SECOND)
    streams.stream(topic, int).group_by_key().windowed_by(sessions(3 * SECOND)).count(store=rows)


def versioned(streams: StreamsBuilder, topic: str) -> None:
    streams.table(topic, int, store=Store("rows", int, history=20 * SECOND))


def with_ttl(streams: StreamsBuilder, topic: str) -> None:
    streams.add_store(Store("rows", int, kind=StoreKind.TTL, ttl=20 * SECOND))
    streams.stream(topic, int).process(Putting, stores=["rows"], values=int)


class Running:
    """An app with one store, and what `verify` says about its local store."""

    def __init__(self, broker: Broker, folder: Path, describe: Describe) -> None:
        name = f"local-{next(_numbers)}"
        topic = f"{name}-events"
        broker.create_topic(topic, 1)

        def described(streams: StreamsBuilder, _: AppSettings) -> None:
            describe(streams, topic)

        self.broker = broker
        self.runs = TaskRuns(name, described, topic, broker, folder / "run")
        self._batch = itertools.count()
        self._at_ms = NOW_MS

    def batch(self, *keys: bytes) -> None:
        """Runs a batch with a record of each key, some seconds later than the one before."""
        self._at_ms += 4000
        self.runs.run(next(self._batch), [(key, b"1", self._at_ms) for key in keys])

    def verdict(self) -> tuple[int, tuple[str, ...]]:
        """How many copies are compared, and what is wrong."""
        changelog = Changelog(self.broker.kafka, self.runs.changelog)
        local = LocalCopies(self.runs.store, self.runs.folder.parent.parent, changelog, SystemClock())
        found = verify_copies(changelog, local.of_partition)
        return sum(found.compared.values()), (*local.flaws, *found.reasons)

    def change(self, edit: Callable[[BytesStore], object], *, forges: bool = True) -> None:
        """Another program writes to the local store; `forges`: with seals."""
        store = (open_sealed if forges else open_rocksdb)(self.runs.folder / "rows", "rows")
        edit(store)
        store.close()

    def clean_up(self, key: bytes) -> None:
        """A clean-up deletes a row."""
        log = KafkaTentativeLog(self.broker.kafka, self.runs.changelog).at(0, 0)
        headers = cleanup_headers([("schema-version", b"1")], "c", CleanupAction.DELETE, 0)
        log.append([LogRecord(0, NOW_MS, key, None, headers)])
        log.commit()


def _double(store: BytesStore) -> None:
    with store.scan(None, None) as rows:
        found = list(rows)
    store.write([(key, value.replace(b"1", b"2")) for key, value in found])


def _delete_one(store: BytesStore) -> None:
    with store.scan(None, None) as rows:
        key, _ = next(rows)
    store.write([(key, None)])


@pytest.mark.parametrize("describe", [table, windows, session_windows, versioned, with_ttl])
def test_local_stores_of_every_kind_are_their_changelogs(broker: Broker, tmp_path: Path, describe: Describe) -> None:
    app, draw = Running(broker, tmp_path, describe), random.Random(3)
    for _ in range(12):
        app.batch(*(b"%d" % draw.randrange(6) for _ in range(draw.randrange(1, 5))))
        assert app.verdict() == (1, ())
    with open_rocksdb(app.runs.folder / "rows", "rows").scan(None, None) as rows:
        assert list(rows), "there is something to compare"


def test_forged_rows_are_found(broker: Broker, tmp_path: Path) -> None:
    app = Running(broker, tmp_path, table)
    app.batch(*(b"%d" % number for number in range(8)))
    app.change(_double)
    compared, (*shown, more) = app.verdict()
    assert (compared, len(shown)) == (1, 3)
    assert all(": different " in reason and "-events/rows, partition 0" in reason for reason in shown)
    assert more.endswith("-events/rows, partition 0: and 5 more")


def test_missing_rows_are_found(broker: Broker, tmp_path: Path) -> None:
    app = Running(broker, tmp_path, table)
    app.batch(b"a", b"b")
    app.batch(b"c")
    app.change(_delete_one)
    compared, reasons = app.verdict()
    assert compared == 1, reasons
    assert [": missing " in reason for reason in reasons] == [True], reasons


def test_rows_without_a_seal_are_told(broker: Broker, tmp_path: Path) -> None:
    app = Running(broker, tmp_path, table)
    app.batch(b"a", b"b")
    app.change(_double, forges=False)
    compared, (reason,) = app.verdict()
    assert compared == 0
    assert reason.startswith("local store ")
    assert "is not as it was written" in reason


def test_a_store_that_its_task_has_open_is_compared(broker: Broker, tmp_path: Path) -> None:
    app = Running(broker, tmp_path, table)
    app.batch(b"a", b"b")
    store = open_sealed(app.runs.folder / "rows", "rows")
    assert app.verdict() == (1, ())
    store.close()


def test_a_cleanup_beside_a_batch_makes_no_difference(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = Running(broker, tmp_path, table)
    app.batch(b"a", b"b", b"c")
    app.clean_up(b"a")
    assert app.verdict() == (1, ()), "the task takes the tombstone with its next batch"
    commit = Transaction.commit

    def beside(self: Transaction, *args: object) -> None:
        app.clean_up(b"b")
        commit(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(Transaction, "commit", beside)
    app.batch(b"d", b"e")
    monkeypatch.undo()
    assert app.verdict() == (1, ())
    app.change(lambda store: store.write([(b"x", b"12345678x")]))
    (reason,) = app.verdict()[1]
    assert ": surplus " in reason
    app.change(_double)
    *shown, more = app.verdict()[1]
    assert len(shown) == 3
    assert more.endswith("and 1 more"), "c, d, e and x; b is about to be deleted"


def test_a_store_that_its_task_would_empty_is_no_copy(broker: Broker, tmp_path: Path) -> None:
    app = Running(broker, tmp_path, table)
    app.batch(b"a")
    anew = Changelog(broker.kafka, app.runs.changelog)
    anew.facts = replace(anew.facts, topic_id="another")
    local = LocalCopies(app.runs.store, app.runs.folder.parent.parent, anew, SystemClock())
    assert (local.of_partition(0), local.flaws) == ([], [])
