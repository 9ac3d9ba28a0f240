"""The checkpoint that a seed makes. Spark and the broker are played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_apps.engine.layout import Layout
from spark_apps.generations import seeding as seeding_module
from spark_apps.generations import steps
from spark_apps.generations.boundary import is_settled
from spark_apps.generations.catalog import first_journal, settings_of
from spark_apps.generations.seed_progress import Progress
from spark_apps.generations.seeding import Seeding
from spark_apps.runtime.checkpoint import SparkCheckpoint
from spark_apps.settings import AppSettings
from spark_apps.topology_app import topology_app
from state.changelog.position import Position
from state.topology import StreamsBuilder
from tests.spark_apps.checkpoints import write_checkpoint

NAMES, SALES = "seeded-names", "seeded-sales"
NO_SESSION: Any = None


def by_name(streams: StreamsBuilder, _: AppSettings) -> None:
    """Counts sales whose item a global table names."""
    names = streams.global_table(NAMES, str)
    named = streams.stream(SALES, str).join(names, lambda _, name: name, on=lambda _, item: item, values=str)
    named.group_by_key().count(store="sold")


APP = topology_app("seeded", by_name, title="Reads a global table, too")


class PlayedTopics:
    """A broker whose topics have two partitions each."""

    def __init__(self, kafka: object) -> None:
        pass

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(names, 2)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"id of {name}" for name in names}

    def own_config(self, name: str) -> dict[str, str]:
        return {}

    def make_anew(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        pass


class PlayedProducer:
    def flush(self, timeout_s: float) -> int:
        return 0


class PlayedRows:
    def persist(self, level: object) -> PlayedRows:
        return self

    def unpersist(self) -> None:
        pass


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def live_progress(_: object, app: str, number: int, layout: Layout, **__: object) -> dict[str, Progress]:
        return {slot: {} for slot in layout.slots()}

    monkeypatch.setattr(seeding_module, "Topics", PlayedTopics)
    monkeypatch.setattr(seeding_module, "new_producer", lambda *_: PlayedProducer())
    monkeypatch.setattr(seeding_module, "live_progress", live_progress)


def seeding(run_dir: Path) -> Seeding:
    """That of generation 2, while generation 1 has finished its batches 0 to 2."""
    journal = steps.planned(first_journal(APP), APP, [])
    found = Seeding(APP, AppSettings(run_dir=run_dir), journal.generation(1), journal.generation(2))
    ends = [{SALES: {"0": end, "1": end}} for end in (2, 5, 7)]
    write_checkpoint(found._live_checkpoint.path, ends, committed=3, initial=None)
    return found


def made_by(found: Seeding) -> SparkCheckpoint:
    """The checkpoint of the new generation."""
    return SparkCheckpoint(settings_of(found.settings, found.new).checkpoint_dir(APP.name))


def test_the_live_app_may_run_on_for_long_while_its_rows_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(found: Seeding, *_: object) -> int:
        """Meanwhile Spark deletes what it wrote of the batch."""
        for folder in ("offsets", "commits"):
            (found._live_checkpoint.path / folder / "2").unlink(missing_ok=True)
        return 3

    def frames(*_: object) -> list[PlayedRows]:
        return [PlayedRows()]

    monkeypatch.setattr(Seeding, "_frames", frames)
    monkeypatch.setattr(Seeding, "_refuse_problems", lambda *_: None)
    monkeypatch.setattr(Seeding, "_written", written)
    found = seeding(tmp_path)
    made = found.from_live(NO_SESSION)
    assert made.rows == 3
    assert made.start == made_by(found).committed_position() == Position({SALES: {0: 7, 1: 7}})
    assert is_settled(made_by(found))
