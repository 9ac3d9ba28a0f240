"""Checkpoints, journals and archives in HDFS and S3: apps that are killed go on from there, on another run directory
too; a clean-up is undone from there, and forgotten.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from demo.oracle import MASKED_FIELDS
from harness.app_process import AppProcess
from harness.node_process import make_nodes
from harness.project_apps import SYSTEM_APPS
from harness.sales import good_sales
from harness.topics import end_offsets, write_topic
from storekeeper.apps.registry import store_definitions
from storekeeper.locations import Location, entries, location
from storekeeper.program import ExitCode
from tests.integration import small_apps
from tests.integration.lake import Lake, made_store, running_lake, shown

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark),
    pytest.mark.long("storekeeper/generations/test_boundary.py and the other tests with `place` have the files in S3"),
    pytest.mark.timeout(2400),  # a broker, a store, and many Spark sessions one after the other
]

_KILLS = 3


@pytest.fixture(scope="module", params=["hdfs", "s3"])
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    folder = tmp_path_factory.mktemp(f"durable-{request.param}")
    store = made_store(request.param, folder / "store")
    place = f"{store.uri.removesuffix('/tables')}/shop"
    quick = {"storekeeper.engine.table_sink.stream:TRIGGER_INTERVAL_MS": 50}
    with running_lake(store, folder, {"durable_uri": place}, quick) as found:
        yield found


def durable(lake: Lake) -> Location:
    return location(lake.apps.settings["durable_uri"])


def run_to_the_end(lake: Lake, app: str, topic: str) -> None:
    """Runs an app until it has read all of its topic."""
    process = lake.apps.start(app)
    process.await_caught_up(end_offsets(lake.broker.bootstrap, topic))
    assert process.terminate() == 0, process.log_tail()


def test_a_killed_app_goes_on_from_its_checkpoint_in_the_store(lake: Lake) -> None:
    sell(lake, 400, seed=11)
    reached = -1
    for _ in range(_KILLS):
        pos = lake.apps.start("pos", max_offsets_per_trigger="30")
        reached = batches_later(pos, reached)
        kill(pos)
    run_to_the_end(lake, "pos", "pos")
    assert len(entries(durable(lake) / "checkpoints" / "pos" / "gen-1" / "commits")) > _KILLS
    assert not (lake.apps.run_dir / "checkpoints").exists()
    check_exact(lake)


def test_another_run_directory_goes_on_where_a_lost_one_ended(lake: Lake) -> None:
    sell(lake, 100, seed=12)
    elsewhere = on_another_run_directory(lake, "another-run")
    run_to_the_end(elsewhere, "pos", "pos")
    check_exact(elsewhere)


def test_a_killed_export_goes_on_on_another_run_directory_and_writes_each_line_once(lake: Lake) -> None:
    sell(lake, 300, seed=17)
    run_to_the_end(lake, "pos", "pos")
    place, reached = lake, -1
    for number in range(_KILLS):
        place = on_another_run_directory(lake, f"export-{number}")
        export = place.apps.start("hadoop_export", max_offsets_per_trigger="40")
        reached = batches_later(export, reached)
        kill(export)
    run_to_the_end(place, "hadoop_export", "hadoop-sink")
    assert len(entries(durable(lake) / "checkpoints" / "hadoop_export" / "gen-1" / "commits")) > _KILLS
    assert not (place.apps.run_dir / "checkpoints").exists()
    rows = lake.table("hadoop_export_staged").to_pyarrow_table().to_pylist()
    assert Counter(tuple(row[name] for name in MASKED_FIELDS) for row in rows) == lake.expected().masked


def test_the_killed_driver_of_the_smaller_apps_goes_on_on_another_run_directory(lake: Lake, tmp_path: Path) -> None:
    small_apps.create_topics(lake.broker, besides=["pos"])
    for number, records in enumerate(small_apps.halves()):
        place = on_another_run_directory(lake, f"small-apps-{number}")
        running = small_apps.started(place.apps, max_offsets_per_trigger="100")
        small_apps.publish(lake.broker, records)
        for app in running:
            app.await_beat(lambda beat: beat.batch_id is not None, "a batch")
        small_apps.kill(running)
    place = on_another_run_directory(lake, "small-apps-at-last")
    running = small_apps.started(place.apps)
    small_apps.await_all(running, lake.broker)
    assert running[0].terminate() == 0, running[0].log_tail()
    for name in SYSTEM_APPS:
        assert entries(durable(lake) / "checkpoints" / name / "gen-1" / "commits")
    assert not (place.apps.run_dir / "checkpoints").exists()
    (node,) = make_nodes(lake.broker, tmp_path, store_definitions(SYSTEM_APPS.values()), names=["a"])
    try:
        node.start()
        node.wait_ready()
        small_apps.await_equal(small_apps.expected_of(lake.broker), node)
    finally:
        node.close()


def test_an_app_whose_store_is_away_ends_and_goes_on_afterwards(lake: Lake) -> None:
    sell(lake, 100, seed=13)
    pos = lake.apps.start("pos", max_offsets_per_trigger="5")
    pos.await_beat(lambda beat: beat.batch_id is not None, "a batch")
    lake.store.go_away()
    try:
        assert pos.await_exit() in {ExitCode.FAILED, ExitCode.TRY_AGAIN}, "the supervisor starts it again"
        code, said = lake.run("run", "pos")
        assert code == ExitCode.TRY_AGAIN, said[-3000:]
        assert f"the store of {durable(lake)}" in said
        assert "Traceback" not in said
    finally:
        lake.store.start()
    run_to_the_end(lake, "pos", "pos")
    check_exact(lake)


def test_a_generation_is_seeded_takes_over_and_the_old_one_is_deleted_in_the_store(lake: Lake) -> None:
    sell(lake, 50, seed=15)
    live = lake.apps.start("pos")
    live.await_caught_up(end_offsets(lake.broker.bootstrap, "pos"))
    seeded = lake.succeed("generation", "seed", "pos")
    beside = lake.apps.start_next("pos")
    sell(lake, 50, seed=14)
    end = end_offsets(lake.broker.bootstrap, "pos")
    for process in (live, beside):
        process.await_caught_up(end)
    assert lake.succeed("generation", "handover", "pos")["live"] == seeded["candidate"]
    lake.succeed("generation", "retire", "pos", "--delete")
    assert beside.await_exit() == 0, beside.log_tail()
    assert live.terminate() == 0, live.log_tail()
    left = durable(lake) / "checkpoints" / "pos"
    assert not entries(left / "gen-1" / "offsets")
    assert not (left / "gen-1.claim.json").exists()
    assert entries(left / f"gen-{seeded['candidate']}" / "offsets")
    assert not list(lake.apps.run_dir.glob("generations/*.json"))
    check_exact(lake)


def test_a_clean_up_is_archived_undone_and_forgotten_in_the_store(lake: Lake) -> None:
    sell(lake, 50, seed=16)
    run_to_the_end(lake, "pos", "pos")
    check_exact(lake)
    before = shown(lake)
    undone, forgotten = (cleaned(lake, undo_days) for undo_days in ("7", "0"))
    assert lake.succeed("cleanup", "run", "rewards", undone)["deleted"] == len(before)
    assert archived(lake, undone)
    assert not (lake.apps.run_dir / "cleanups").exists()
    assert lake.succeed("cleanup", "undo", "rewards", undone)["restored"] == len(before)
    check_exact(lake)

    assert lake.succeed("cleanup", "run", "rewards", forgotten)["expired"] == len(before)
    assert archived(lake, forgotten)
    assert lake.succeed("snapshot", "optimize", "rewards")["forgotten_cleanups"] == [forgotten]
    assert not archived(lake, forgotten)
    assert archived(lake, undone), "it may still be undone"


def on_another_run_directory(lake: Lake, name: str) -> Lake:
    """The same store and broker, with apps on a run directory of that name, which is empty at first."""
    return replace(lake, apps=replace(lake.apps, run_dir=lake.apps.run_dir.with_name(name)))


def cleaned(lake: Lake, undo_days: str) -> str:
    """The preview of a clean-up of all rewards."""
    options = ("--ttl-days", "0.00000002", "--canary-share", "0", "--undo-days", undo_days)
    plan = lake.succeed("cleanup", "preview", "rewards", *options)
    return str(plan["cleanup_id"])


def archived(lake: Lake, cleanup_id: str) -> list[str]:
    """The names of a clean-up's archives."""
    files = entries(durable(lake) / "cleanups" / "rewards" / cleanup_id)
    return [file.name for file in files if file.name.startswith("archive-")]


def batches_later(app: AppProcess, batch_id: int) -> int:
    """Waits until an app has finished some batches after this one; the last of them."""
    beat = app.await_beat(lambda beat: (beat.batch_id or 0) > batch_id + 1, f"it is beyond batch {batch_id}")
    assert beat.batch_id is not None
    return beat.batch_id


def kill(app: AppProcess) -> None:
    """Kills an app and its JVM with KILL, in the middle of whatever they do."""
    for process in (*psutil.Process(app.process.pid).children(recursive=True), psutil.Process(app.process.pid)):
        os.kill(process.pid, signal.SIGKILL)
    assert app.await_exit() == -signal.SIGKILL


def sell(lake: Lake, count: int, *, seed: int) -> None:
    write_topic(lake.broker.bootstrap, "pos", good_sales(count, seed=seed))


def check_exact(lake: Lake) -> None:
    """A snapshot of the rewards holds exactly what was sold."""
    lake.succeed("snapshot", "create", "rewards")
    lake.succeed("verify", "rewards")
    assert shown(lake) == {card: (reward.points, reward.invoices) for card, reward in lake.expected().rewards.items()}
