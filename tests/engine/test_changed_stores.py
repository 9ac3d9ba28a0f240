"""Another program changes a task's local stores: their rows never become totals."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.checkpoint import METADATA_KEY
from storekeeper.errors import StoreCorruptedError
from storekeeper.stores.bytes_store import BytesStore
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.topology import Store, StreamsBuilder
from tests.engine.task_runs import TaskRuns
from tests.engine.topologies import Totals

pytestmark = pytest.mark.broker

NOW_MS = int(time.time() * 1000)
KEYS = [b"%d" % number for number in range(8)]
_numbers = itertools.count()


@pytest.fixture
def app(broker: Broker, tmp_path: Path) -> TaskRuns:
    name = f"changed-{next(_numbers)}"
    topic = f"{name}-events"
    broker.create_topic(topic, 1)

    def described(streams: StreamsBuilder, _: AppSettings) -> None:
        streams.stream(topic, int).group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals))

    return TaskRuns(name, described, topic, broker, tmp_path / "run")


def change(app: TaskRuns, edit: Callable[[BytesStore], object]) -> None:
    store = open_rocksdb(app.folder / "totals", "totals")
    edit(store)
    store.close()


def _rows(store: BytesStore) -> None:
    rows = [(key, value) for key, value in store.scan(None, None)]
    store.write([(key, value.replace(b'"total":1', b'"total":9')) for key, value in rows])


def _position(store: BytesStore) -> None:
    found = store.metadata(METADATA_KEY) or b""
    store.write((), {METADATA_KEY: found.replace(b'"partition":0', b'"partition":1')})


@pytest.mark.parametrize(("edit", "fails"), [(_rows, True), (_position, False)])
def test_changed_rows_never_become_totals(app: TaskRuns, edit: Callable[[BytesStore], object], *, fails: bool) -> None:
    app.run(0, [(key, b"1", NOW_MS) for key in KEYS])
    change(app, edit)
    again = [(key, b"10", NOW_MS) for key in KEYS]
    if fails:
        with pytest.raises(StoreCorruptedError, match="not as it was written"):
            app.run(1, again)
    app.run(1, again)
    assert {key: orjson.loads(value)["total"] for key, value in app.rows().items()} == dict.fromkeys(KEYS, 11)
    assert len(list(app.folder.glob("totals.corrupt-*"))) == 1
