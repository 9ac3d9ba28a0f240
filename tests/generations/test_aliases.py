"""Aliases that Kafka has lost are those of the journals: a node that starts without them would answer from old rows."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.generations import aliases
from storekeeper.generations.aliases import aliases_kept, aliases_of, lost_aliases
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import Journal, JournalFile
from storekeeper.generations.migration import StoreMigration
from storekeeper.generations.steps import planned, retired, seeded, started
from storekeeper.node.cluster.aliases import Alias
from storekeeper.topology import StreamsBuilder
from tests.generations.test_steps import handed_over
from tests.integration.counted_app import COUNTED

APPS = (POS, TICKS)


def sums_alone(streams: StreamsBuilder, _: AppSettings) -> None:
    """The topology without the stores of its processor."""
    streams.stream("counted-events", int).group_by_key().count(store="sums")


WITHOUT = StoreMigration("without", "sums", "Less.", 2, f"{__name__}:unused", f"{__name__}:sums_alone")


def candidate() -> Journal:
    return seeded(planned(first_journal(POS), POS, ()), 2, Position({"pos": {0: 1}}), 3)


def lost(run_dir: Path, known: Mapping[str, Alias] | None = None) -> list[tuple[str, str, str | None, bool]]:
    """Store, topic, topic before, whether it is only prepared."""
    found = lost_aliases(APPS, AppSettings(run_dir=run_dir), lambda: known or {}, 7)
    return [(alias.store, alias.topic, alias.previous_topic, alias.prepare) for alias in found]


def test_without_generations_kafka_is_not_asked(tmp_path: Path) -> None:
    def ask() -> Mapping[str, Alias]:
        pytest.fail("nothing was ever published")

    JournalFile(tmp_path, "pos").write(candidate())
    assert lost_aliases(APPS, AppSettings(run_dir=tmp_path), ask, 7) == []


def test_a_generation_that_is_prepared_stays_so(tmp_path: Path) -> None:
    JournalFile(tmp_path, "pos").write(started(candidate(), 2))
    first, second = "pos-rewards-changelog", "pos-rewards-changelog-g2"
    assert lost(tmp_path) == [("rewards", second, first, True)]


def test_the_live_generation_answers_and_the_standby_stays_warm(tmp_path: Path) -> None:
    journal = handed_over()
    JournalFile(tmp_path, "pos").write(journal)
    live, standby = journal.live_generation.topics["rewards"], journal.generation(1).topics["rewards"]
    assert lost(tmp_path) == [("rewards", live, standby, False)]
    JournalFile(tmp_path, "pos").write(retired(journal, 1))
    assert lost(tmp_path) == [("rewards", live, None, False)]


def test_an_alias_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    """A step publishes it before the journal has the step."""
    JournalFile(tmp_path, "pos").write(handed_over())
    assert lost(tmp_path, {"rewards": Alias("rewards", 1, "pos-rewards-changelog", None, 1)}) == []


def test_a_fixed_generation_has_no_aliases(tmp_path: Path) -> None:
    JournalFile(tmp_path, "pos").write(handed_over())
    assert lost_aliases(APPS, AppSettings(run_dir=tmp_path, generation=3), dict, 7) == ()


def test_a_live_app_publishes_its_lost_aliases_again_and_outlives_a_kafka_that_is_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[tuple[object, object]] = []
    enough = threading.Event()

    def publish(*arguments: object) -> list[str]:
        asked.append((arguments[0], arguments[1]))
        if len(asked) == 1:
            raise BrokerUnavailableError("nobody listens")
        enough.set()
        return []

    monkeypatch.setattr(aliases, "_LOOK_S", 0.01)
    monkeypatch.setattr(aliases, "publish_lost_aliases", publish)
    settings = AppSettings(run_dir=tmp_path)
    with aliases_kept([POS], settings):
        assert enough.wait(60)
    assert asked[:2] == [([POS], settings)] * 2


def test_a_store_that_the_topology_got_after_a_migration_answers_from_the_live_generation(tmp_path: Path) -> None:
    journal = retired(handed_over(), 1)
    journal = journal.updated(replace(journal.live_generation, topics={}))
    JournalFile(tmp_path, "pos").write(journal)
    assert lost(tmp_path) == [("rewards", "pos-rewards-changelog-g2", None, False)]


def test_a_store_that_only_one_generation_has_is_served_as_it_is() -> None:
    live = first_journal(COUNTED).live_generation
    without = replace(live, number=2, migrations=(f"{__name__}:WITHOUT",), topics={"sums": "counted-sums-changelog-g2"})
    prepared = aliases_of(COUNTED, live, without, 7, prepare=True)
    assert [(alias.store, alias.topic) for alias in prepared] == [("sums", "counted-sums-changelog-g2")]
    assert [alias.store for alias in aliases_of(COUNTED, without, live, 7)] == ["sums"]
    assert [alias.previous_topic for alias in aliases_of(COUNTED, live, without, 7)] == [
        "counted-sums-changelog-g2", None, None,
    ]  # fmt: skip
