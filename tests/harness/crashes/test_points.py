"""The plan of a campaign, and how a kill waits for its point."""

from __future__ import annotations

import random
import sys
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from types import ModuleType

import pytest
from pyspark import cloudpickle

from harness.crashes import armed as armed_kills
from harness.crashes.armed import Armed, Place
from harness.crashes.dying_tasks import DyingTask
from harness.crashes.harm import Harm, Stores
from harness.crashes.points import POINTS, PROCESSES, Kill, Life, Point, Victim, again, coming_again, lives
from storekeeper.engine import kafka_rows, stream
from storekeeper.engine.table_sink import letters
from storekeeper.stores.rocksdb import open_rocksdb


def planned(app: str, kills: int) -> list[Life]:
    """The first lives of an app, with so many kills."""
    found: list[Life] = []
    for life in lives(app, seed=1):
        if sum(len(each.kills) for each in found) >= kills:
            break
        found.append(life)
    return found


@pytest.mark.parametrize(
    ("process", "kills"), [("pos", 150), ("careless", 150), ("hadoop_export", 50), ("shared_driver", 600)]
)
def test_a_campaign_meets_every_point_of_every_app(process: str, kills: int) -> None:
    points = {(kill.app, kill.point) for life in planned(process, kills) for kill in life.kills}
    assert points == {(None, Point.ANY), *((app, point) for app in PROCESSES[process] for point in POINTS[app])}


def test_a_slow_driver_of_several_apps_meets_all_of_their_points_in_ten_lives() -> None:
    found = list(islice(lives("shared_driver", seed=1), 10))
    kills = [kill for life in found for kill in life.kills]
    assert {(kill.app, kill.point) for kill in kills if kill.app} == {
        (app, point) for app in PROCESSES["shared_driver"] for point in POINTS[app]
    }
    assert {kill.victim for kill in kills} == set(Victim)


def test_every_victim_dies_and_every_harm_is_done() -> None:
    found = planned("pos", 150)
    assert {kill.victim for life in found for kill in life.kills} == set(Victim)
    assert min(Counter(life.harm for life in found if life.harm).values()) >= 3
    assert {life.harm for life in found} >= set(Harm)


def test_an_app_that_only_loses_workers_or_the_broker_lives_on() -> None:
    for life in islice(lives("pos", seed=2), 100):
        survived = life.kills[:-1]
        assert {kill.victim for kill in survived} <= {Victim.WORKER, Victim.BROKER}
        assert life.retries or not survived


def test_what_a_life_has_missed_comes_again_for_any_task_until_it_is_hit() -> None:
    reading = Kill(Point.BETWEEN_READS, Victim.WORKER, "pos", partition=3, stateful=False)
    restoring = Kill(Point.RESTORING, Victim.WORKER, "pos", stateful=True)
    end = Kill(Point.PLANNED, Victim.JVM, "pos")
    life = Life(Harm.DELETED, retries=True, kills=(restoring, reading, end))
    assert again(life, [reading, end]) == Life(None, True, (Kill(Point.BETWEEN_READS, Victim.WORKER, "pos"), end))
    assert again(life, [restoring]) == Life(Harm.DELETED, True, (Kill(Point.RESTORING, Victim.WORKER, "pos"),))
    missed: list[Life] = []
    met: list[str] = []
    for one in coming_again((Life(None, True, (replace(end, app=app),)) for app in "abc"), missed):
        app = str(one.kills[0].app)
        met.append(app)
        missed += [one] if met.count(app) < {"a": 3, "b": 1, "c": 1}[app] else []
    assert "".join(met) == "aabac", "those that are missed hold up no other"


def test_a_kill_is_taken_once_by_who_comes_to_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    killed: list[Victim] = []
    monkeypatch.setattr(armed_kills, "kill_from_inside", lambda victim, _: killed.append(victim))
    own, zombies = Armed(tmp_path, "pos-2"), Armed(tmp_path, "pos-1")
    own.arm(7, Kill(Point.APPLIED, Victim.JVM, "pos", partition=2, stateful=True), broker_pid=0)
    place = Place("pos", 2, stateful=True)
    zombies.at(Point.APPLIED, place)
    own.at(Point.APPLYING, place)
    own.at(Point.APPLIED, Place("pos", 1, stateful=True))
    own.at(Point.APPLIED, Place("pos", 2, stateful=False))
    own.at(Point.APPLIED, Place("ticks", 2, stateful=True))
    assert (killed, own.is_taken(7)) == ([], False)
    for _ in range(2):
        own.at(Point.APPLIED, place)
    assert (killed, own.is_taken(7), own.withdraw(7)) == ([Victim.JVM], True, False)


@pytest.mark.parametrize("module", [kafka_rows, letters, stream])
def test_what_dies_travels_to_workers(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    name = {kafka_rows: "_rows", letters: "_write_letters", stream: "run_sources"}[module]
    run = getattr(module, name)
    dying = DyingTask.of(run, "pos")
    monkeypatch.setattr(module, name, dying)
    sent = cloudpickle.dumps(partial(dying, work=1))  # type: ignore[no-untyped-call]
    assert cloudpickle.loads(sent).func == dying
    monkeypatch.undo()
    assert getattr(sys.modules[dying.module], dying.name) is run


@pytest.fixture
def stores(tmp_path: Path) -> tuple[Path, Stores]:
    folder = tmp_path / "stores"
    for partition in range(2):
        write(folder, partition, b"old")
    return folder, Stores(folder, tmp_path / "copies", random.Random(1))


def write(folder: Path, partition: int, value: bytes) -> None:
    store = open_rocksdb(folder / str(partition) / "rows", "rows")
    store.write([(b"partition", b"%d" % partition), (b"value", value)])
    store.close()


def read(folder: Path, partition: int) -> tuple[bytes | None, bytes | None]:
    store = open_rocksdb(folder / str(partition) / "rows", "rows")
    found = store.get(b"partition"), store.get(b"value")
    store.close()
    return found


def test_stores_are_set_back_to_what_they_were_before(stores: tuple[Path, Stores]) -> None:
    folder, harmed = stores
    harmed.keep()
    assert harmed.harm(Harm.SWAPPED)
    assert read(folder, 0) == (b"1", b"old")
    write(folder, 0, b"new")
    assert harmed.harm(Harm.SET_BACK)
    assert read(folder, 0) == (b"0", b"old")


def test_deleted_stores_are_gone(stores: tuple[Path, Stores]) -> None:
    folder, harmed = stores
    assert harmed.harm(Harm.DELETED)
    assert not list(folder.iterdir())


def test_each_damaged_store_has_one_file_that_is_not_as_it_was(stores: tuple[Path, Stores]) -> None:
    folder, harmed = stores
    before = {file: file.read_bytes() for file in folder.glob("*/*/*")}
    assert harmed.harm(Harm.DAMAGED)
    changed = [file for file, data in before.items() if not file.exists() or file.read_bytes() != data]
    assert sorted(file.parent.parent.name for file in changed) == ["0", "1"]


def test_stores_that_are_not_there_are_not_harmed(tmp_path: Path) -> None:
    assert not Stores(tmp_path / "none", tmp_path / "copies", random.Random(1)).harm(Harm.DELETED)
