"""The backends of tasks' stores: each is a replica of its changelog, whatever it forgets and whenever a task dies."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import orjson
import pytest
import redis

from harness.broker import Broker
from storekeeper.apps.settings import AppSettings
from storekeeper.engine import store_backends
from storekeeper.engine.store_backends import MemoryBackend, check_backends, delete_remote_rows, task_backend
from storekeeper.errors import ConfigurationError, RecordFailedError, StorageError
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.stores.memory import MemoryStore
from storekeeper.stores.profile import Profile
from storekeeper.stores.rocksdb_options import RocksDBOptions
from storekeeper.topology import Store, StoreKind, StreamsBuilder
from storekeeper.topology.task import Task
from storekeeper.topology.topology_store import TopologyStore
from tests.engine.task_runs import TaskRuns
from tests.engine.topologies import Totals

NOW_MS = int(time.time() * 1000)
_numbers = itertools.count()


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def redis_run_dir(redis_url: str, run_dir: Path) -> Path:
    """A run directory that names the server."""
    name_server(run_dir, redis_url)
    return run_dir


def name_server(run_dir: Path, url: str) -> Path:
    path = AppSettings(run_dir=run_dir).redis_url_file
    path.parent.mkdir(parents=True, mode=0o700)
    path.touch(mode=0o600)
    path.write_text(url + "\n", encoding="utf-8")
    return path


def counting(backend: str, topic: str) -> Callable[[StreamsBuilder, AppSettings], None]:
    def describe(streams: StreamsBuilder, _: AppSettings) -> None:
        store = Store("totals", Totals, backend=backend)
        streams.stream(topic, int).group_by_key().aggregate(Totals, Totals.plus, store=store)

    return describe


@pytest.fixture(params=["rocksdb", "memory", pytest.param("redis", marks=pytest.mark.redis)])
def app(request: pytest.FixtureRequest, broker: Broker, run_dir: Path) -> TaskRuns:
    name, backend = f"held-{next(_numbers)}", request.param
    broker.create_topic(f"{name}-events", 1)
    if backend == "redis":
        request.getfixturevalue("redis_run_dir")
    return TaskRuns(name, counting(backend, f"{name}-events"), f"{name}-events", broker, run_dir)


def forget(app: TaskRuns) -> None:
    """Loses all that the backend holds."""
    store_backends._kept.clear()
    shutil.rmtree(app.folder, ignore_errors=True)
    if app.settings.redis_url_file.exists():
        with redis.Redis.from_url(app.settings.redis_url_file.read_text(encoding="utf-8").strip()) as client:
            client.flushall()


def totals(app: TaskRuns) -> dict[bytes, int]:
    return {key: orjson.loads(value)["total"] for key, value in app.rows().items()}


@pytest.mark.broker
def test_what_a_backend_loses_comes_from_the_changelog(app: TaskRuns) -> None:
    app.run(0, [(b"a", b"1", NOW_MS), (b"b", b"10", NOW_MS)])
    app.run(1, [(b"a", b"2", NOW_MS)])
    forget(app)
    app.run(2, [(b"a", b"4", NOW_MS)])
    assert totals(app) == {b"a": 7, b"b": 10}


@pytest.mark.broker
def test_what_was_committed_and_not_applied_is_read_before_the_next_batch(
    app: TaskRuns, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.run(0, [(b"a", b"1", NOW_MS)])

    def die(*_: object) -> NoReturn:
        raise RuntimeError

    with monkeypatch.context() as patched:
        patched.setattr(Task, "apply", die)
        with pytest.raises(RecordFailedError):
            app.run(1, [(b"a", b"2", NOW_MS)])
    app.run(1, [(b"a", b"2", NOW_MS)])  # Spark runs the batch again: it was committed
    app.run(2, [(b"a", b"4", NOW_MS)])
    assert totals(app) == {b"a": 7}


@pytest.mark.broker
def test_a_batch_that_is_given_up_leaves_no_rows(app: TaskRuns, monkeypatch: pytest.MonkeyPatch) -> None:
    app.run(0, [(b"a", b"1", NOW_MS)])

    def die(*_: object) -> NoReturn:
        raise StorageError("the broker is gone")

    with monkeypatch.context() as patched:
        patched.setattr("storekeeper.engine.transaction.Transaction.commit", die)
        with pytest.raises(StorageError):
            app.run(1, [(b"a", b"2", NOW_MS)])
    app.run(1, [(b"a", b"4", NOW_MS)])
    assert totals(app) == {b"a": 5}


@pytest.mark.broker
@pytest.mark.redis
def test_rows_that_something_else_has_deleted_are_restored(broker: Broker, redis_run_dir: Path, redis_url: str) -> None:
    broker.create_topic("deleted-events", 1)
    app = TaskRuns("deleted", counting("redis", "deleted-events"), "deleted-events", broker, redis_run_dir)
    app.run(0, [(b"a", b"1", NOW_MS)])
    with redis.Redis.from_url(redis_url) as client:
        assert client.hlen("storekeeper:{deleted:gen-1:totals:0}:rows") == 1
        client.delete("storekeeper:{deleted:gen-1:totals:0}:rows")
    app.run(1, [(b"a", b"2", NOW_MS)])
    assert totals(app) == {b"a": 3}
    delete_remote_rows("deleted", app.settings)
    with redis.Redis.from_url(redis_url) as client:
        assert client.keys("storekeeper:{deleted:*") == []


def spec(backend: str) -> TopologyStore:
    return TopologyStore("rows", StoreKind.KEY_VALUE, Utf8Serde(), Utf8Serde(), Store("rows", backend=backend))


def test_a_process_keeps_rows_in_memory_from_batch_to_batch_for_each_task(tmp_path: Path) -> None:
    one, other = MemoryBackend(spec("memory"), tmp_path / "0"), MemoryBackend(spec("memory"), tmp_path / "1")
    store = one.open()
    store.write([(b"a", b"1")])
    one.close(store)
    assert (one.open().get(b"a"), other.open().get(b"a")) == (b"1", None)
    one.remove()
    assert one.open().get(b"a") is None
    other.set_aside()
    one.remove()


def test_a_store_without_changelog_is_tuned_as_its_profile_says(
    run_dir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned: list[Profile] = []

    def open_rocksdb(path: Path, name: str, options: RocksDBOptions) -> MemoryStore:
        tuned.append(options.profile)
        return MemoryStore(name)

    monkeypatch.setattr(store_backends, "open_rocksdb", open_rocksdb)
    options = Store[Any]("rows", logging=False, profile="memory_constrained")
    unlogged = TopologyStore("rows", StoreKind.KEY_VALUE, Utf8Serde(), Utf8Serde(), options)
    task_backend(unlogged, tmp_path / "rows", AppSettings(run_dir=run_dir), "app", 0).open()
    assert tuned == [Profile.MEMORY_CONSTRAINED]


def test_a_store_on_redis_needs_a_server(run_dir: Path, tmp_path: Path) -> None:
    streams = StreamsBuilder("app")
    settings = AppSettings(run_dir=run_dir)
    counting("redis", "in")(streams, settings)
    topology = streams.build()
    with pytest.raises(ConfigurationError, match=r"into .*/run/secrets/redis\.url \(mode 0600\)"):
        check_backends(topology, settings)
    path = name_server(run_dir, f"unix://{tmp_path}/none.sock")
    with pytest.raises(StorageError, match="Redis server failed"):
        check_backends(topology, settings)
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="the URL of Redis in"):
        task_backend(spec("redis"), tmp_path, settings, "app", 0)


def test_an_app_without_stores_on_redis_needs_none(run_dir: Path) -> None:
    streams = StreamsBuilder("app")
    settings = AppSettings(run_dir=run_dir)
    counting("memory", "in")(streams, settings)
    check_backends(streams.build(), settings)
    delete_remote_rows("app", settings)
