"""What the run directory knows about Kafka is compared with what Kafka has, before anything is made anew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.steps import planned, started
from storekeeper.ops.errors import LostTopicsError
from storekeeper.ops.lost_topics import Losses, check_not_empty, known_topics, lost_topics
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.topics import topics_of

APPS = (POS, TICKS)
POS_IDS = {"pos": "id-pos", "pos-rewards-changelog": "id-rewards"}
TICKS_IDS = {"ticks": "id-ticks"}


class FakeTopics:
    """A Kafka with some topics, each of one partition."""

    def __init__(self, ids: Mapping[str, str], ends: Mapping[str, int] | None = None) -> None:
        self._ids = dict(ids)
        self._ends = dict(ends or {})

    def missing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name not in self._ids]

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: self._ids[name] for name in names}

    def end(self, names: Iterable[str]) -> Position:
        return Position({name: {0: self._ends.get(name, 100)} for name in names})


def settings(run_dir: Path, **others: Any) -> AppSettings:
    return AppSettings.load(run_dir=run_dir, **others)


def claim(run_dir: Path, app: str, ids: Mapping[str, str], generation: int = 1) -> None:
    of = settings(run_dir).model_copy(update={"generation": generation})
    folder = of.checkpoint_dir(app)
    Path(str(folder)).mkdir(parents=True)
    CheckpointOwner(app, generation, None, ids).write(folder)


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    claim(tmp_path, "pos", POS_IDS)
    claim(tmp_path, "ticks", TICKS_IDS)
    return tmp_path


def found(run_dir: Path, kafka: Mapping[str, str], ends: Mapping[str, int] | None = None, **others: Any) -> Losses:
    topics: Any = FakeTopics(kafka, ends)
    return lost_topics(known_topics(APPS, settings(run_dir, **others)), topics)


def test_nothing_is_lost_where_all_is_as_it_was(run_dir: Path) -> None:
    assert found(run_dir, {**POS_IDS, **TICKS_IDS, "others": "x"}).by_app == {}


def test_where_no_app_has_ever_run_nothing_can_be_lost(tmp_path: Path) -> None:
    losses = found(tmp_path, {})
    assert (losses.by_app, losses.are_total) == ({}, False)
    check_not_empty(PlatformSettings.load(run_dir=tmp_path), APPS)


@pytest.mark.parametrize(
    ("kafka", "ends", "how"),
    [
        ({"pos": "id-pos"}, {}, "deleted"),
        ({**POS_IDS, "pos-rewards-changelog": "another"}, {}, "deleted and recreated"),
    ],
)
def test_a_lost_topic_is_named_with_its_app_and_the_others_go_on(
    run_dir: Path, kafka: dict[str, str], ends: dict[str, int], how: str
) -> None:
    losses = found(run_dir, {**TICKS_IDS, **kafka}, ends)
    assert losses.by_app == {"pos": {"pos-rewards-changelog": how}}
    assert not losses.are_total
    assert f"pos-rewards-changelog ({how})" in losses.of("pos")
    assert "up --accept-loss" in losses.of("pos")


def test_older_data_is_a_loss(run_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "storekeeper.ops.lost_topics.BatchCheckpoint.committed_position", lambda _: Position({"pos": {0: 50}})
    )
    kafka = {**POS_IDS, **TICKS_IDS}
    assert found(run_dir, kafka, {"pos": 50}).by_app == {}
    assert "older data" in found(run_dir, kafka, {"pos": 49}).by_app["pos"]["pos"]


def test_an_empty_kafka_is_a_total_loss(run_dir: Path) -> None:
    losses = found(run_dir, {})
    assert losses.are_total
    assert losses.topics.keys() == {*POS_IDS, *TICKS_IDS}


def test_a_new_generation_needs_its_sources_and_no_changelog(run_dir: Path) -> None:
    assert found(run_dir, {"pos": "any", "ticks": "any"}, generation=3).by_app == {}
    losses = found(run_dir, {"ticks": "any"}, generation=3)
    assert losses.by_app == {"pos": {"pos": "deleted"}}
    claim(run_dir, "pos", {"pos": "id-2", "pos-rewards-changelog-g3": "id-3"}, generation=3)
    assert found(run_dir, {"pos": "id-2", "ticks": "x"}, generation=3).by_app == {
        "pos": {"pos-rewards-changelog-g3": "deleted"}
    }


def test_the_generations_of_a_journal_count(run_dir: Path) -> None:
    JournalFile(run_dir, "pos").write(started(planned(first_journal(POS), POS, ()), 2))
    claim(run_dir, "pos", {"pos": "id-pos", "pos-rewards-changelog-g2": "id-g2"}, generation=2)
    losses = found(run_dir, {**POS_IDS, **TICKS_IDS})
    assert losses.by_app == {"pos": {"pos-rewards-changelog-g2": "deleted"}}


def test_storage_that_is_gone_is_not_made_anew(run_dir: Path) -> None:
    platform = PlatformSettings.load(run_dir=run_dir)
    with pytest.raises(
        LostTopicsError, match=r"^Kafka's data is lost: the broker's data in .*/kafka is gone, and with it"
    ):
        check_not_empty(platform, APPS)
    made = run_dir / "kafka" / "data" / "meta.properties"
    made.parent.mkdir(parents=True)
    made.touch()
    check_not_empty(platform, APPS)
    check_not_empty(PlatformSettings.load(run_dir=run_dir, kafka_bootstrap="elsewhere:9092"), APPS)


def test_topics_of_the_generation_that_the_configuration_names_are_made(
    run_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    platform = PlatformSettings.load(run_dir=run_dir)
    JournalFile(run_dir, "pos").write(started(planned(first_journal(POS), POS, ()), 2))
    names = {topic.name for topic in topics_of(platform, [POS])}
    assert names >= {"pos", "pos-rewards-changelog", "pos-rewards-changelog-g2"}
    monkeypatch.setenv("STOREKEEPER_GENERATION", "4")
    topics = {topic.name: topic for topic in topics_of(platform, [POS])}
    assert {name for name in topics if "changelog" in name} == {"pos-rewards-changelog-g4"}
    assert topics["pos-rewards-changelog-g4"].partitions == platform.topic_partitions
