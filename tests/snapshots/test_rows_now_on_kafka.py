"""The rows at one cut of a real changelog, whose app commits and aborts transactions all the time."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import pytest
from confluent_kafka import KafkaError, Message, Producer

from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.snapshots.rows_now import Stretch, rows_now
from tests.snapshots.played_app import App, time_of
from tests.snapshots.test_job import app

pytestmark = [pytest.mark.broker]
__all__ = ["app"]

KEYS = [f"key-{number}" for number in range(40)]
Sent = tuple[int, int, bytes, bytes | None]


@dataclass
class WritingApp:
    """Writes batch after batch, each in a transaction; every third one is aborted first, and runs again.

    Attributes:
        app: the app that it plays.
        committed: all that it has committed.
        batches: how many batches it has finished.
    """

    app: App
    committed: list[Sent] = field(default_factory=list)
    batches: int = 0
    finished: threading.Condition = field(default_factory=threading.Condition)
    ends: threading.Event = field(default_factory=threading.Event)

    def run(self) -> None:
        drawn = random.Random(11)
        config = {
            "bootstrap.servers": self.app.broker.bootstrap,
            "partitioner": "murmur2_random",
            "transactional.id": self.app.store.changelog_topic,
        }
        producer = Producer(config)
        producer.init_transactions(30)
        while not self.ends.is_set():
            batch = self.batches + 1
            self.app._plan(batch, 1)
            changes = {key: drawn.choice([None, *"vwxyz"]) for key in drawn.sample(KEYS, drawn.randrange(1, 12))}
            if batch % 3 == 0:
                producer.begin_transaction()
                self._send(producer, batch, dict.fromkeys(changes, "aborted"))
                producer.abort_transaction(30)
            producer.begin_transaction()
            sent = self._send(producer, batch, changes)
            producer.commit_transaction(30)
            self.app.commit(batch)
            with self.finished:
                self.committed += sent
                self.batches = batch
                self.finished.notify_all()

    def _send(self, producer: Producer, batch: int, changes: dict[str, str | None]) -> list[Sent]:
        headers, sent = ChangelogHeaders(1, batch, time_of(batch, 1), {}).encode(), list[Sent]()

        def note(error: KafkaError | None, message: Message) -> None:
            assert error is None, error
            value = message.value() if len(message) else None
            sent.append((message.partition() or 0, message.offset() or 0, message.key() or b"", value))

        for key, word in changes.items():
            value = None if word is None else self.app.encode(word)
            producer.produce(self.app.store.changelog_topic, value, key.encode(), headers=headers, on_delivery=note)
        assert producer.flush(30) == 0
        return sent

    def await_batches(self, more: int) -> None:
        """Waits until some more batches are finished."""
        with self.finished:
            wanted = self.batches + more
            assert self.finished.wait_for(lambda: self.batches >= wanted, 60)


@contextmanager
def writing(app: App) -> Iterator[WritingApp]:
    """An app that writes until the end of the block."""
    one = WritingApp(app)
    thread = threading.Thread(target=one.run)
    thread.start()
    try:
        one.await_batches(3)
        yield one
    finally:
        one.ends.set()
        thread.join(60)


def replayed(committed: list[Sent], stretches: dict[int, Stretch]) -> dict[bytes, bytes]:
    """The rows that the committed records in front of a cut leave."""
    rows: dict[bytes, bytes] = {}
    for partition, offset, key, value in sorted(committed):
        if offset >= stretches[partition].end:
            continue
        if value is None:
            rows.pop(key, None)
        else:
            rows[key] = value
    return rows


def test_rows_are_those_of_one_cut_while_the_app_writes_and_aborts(app: App) -> None:
    app.now_ms = time_of(100_000, 1)
    seen = []
    with writing(app) as one:
        for turn in range(12):
            if turn in {4, 8}:
                app.snapshot()
            planned = rows_now(app.store, app.settings, app.now_ms)
            if turn % 2:
                one.await_batches(4)  # so that the cut lies behind
            batches = (batch for partition in planned.stretches for batch in planned.rows(partition))
            rows = [row for batch in batches for row in zip(batch["_key"], batch["_value"], strict=True)]
            seen.append((dict(planned.stretches), [(key.as_py(), value.as_py()) for key, value in rows]))
    for stretches, found in seen:
        assert sorted(found) == sorted(replayed(one.committed, stretches).items())
    assert [any(part.from_table for part in stretches.values()) for stretches, _ in seen] == [False] * 4 + [True] * 8
    assert len({tuple(part.end for part in stretches.values()) for stretches, _ in seen}) > 6, "the app went on"
    assert BatchCheckpoint(app.settings.checkpoint_dir(app.store.app)).last_committed_batch() == one.batches
