"""What a store is now: itself, or the stores that it was split into."""

from __future__ import annotations

from pathlib import Path

import pytest
from spark_apps.loyalty.spec import REWARDS
from spark_apps.ticks.spec import PRICES

from spark_apps.generations.journal import JournalFile
from spark_apps.generations.live import live_store, live_stores, store_in
from spark_apps.generations.steps import planned, retired
from spark_apps.settings import AppSettings
from state.changelog.position import Position
from state.errors import UnknownStoreError
from state.snapshots.manifest import SnapshotManifest
from tests.spark_apps.generations.test_steps import PARTS, first, split


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    """Those of a run directory in which `rewards` is split; the generation before stands by."""
    JournalFile(tmp_path, "loyalty").write(split())
    return AppSettings(run_dir=tmp_path)


def test_a_store_that_never_changed_is_itself(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    assert live_store("rewards", settings) == (REWARDS, settings)
    assert live_stores("rewards", settings) == ["rewards"]
    JournalFile(tmp_path, "loyalty").write(first())
    assert live_store("rewards", settings)[0] == REWARDS
    with pytest.raises(UnknownStoreError, match="there is no store 'rewards-north'"):
        live_store("rewards-north", settings)


def test_the_parts_of_a_split_are_stores_and_the_whole_names_them(settings: AppSettings) -> None:
    assert live_stores("rewards", settings) == list(PARTS)
    assert live_stores("rewards-west", settings) == ["rewards-west"]
    store, own = live_store("rewards-west", settings)
    assert (store.name, store.table_name, store.changelog_topic) == (
        *("rewards-west", "rewards-west"),
        PARTS["rewards-west"],
    )
    assert (store.app, store.schema_version, own.generation) == ("loyalty", 4, 2)
    with pytest.raises(UnknownStoreError, match="are in rewards-north, rewards-east, rewards-south, rewards-west now"):
        live_store("rewards", settings)
    assert live_store("prices", settings)[0] == PRICES


def test_the_whole_is_a_store_again_once_it_is_merged_and_names_itself_for_its_parts(tmp_path: Path) -> None:
    journal = planned(retired(split(), 1), ["rewards-merge"], None)
    JournalFile(tmp_path, "loyalty").write(journal.updated(live=3))
    settings = AppSettings(run_dir=tmp_path)
    assert live_store("rewards", settings)[0].changelog_topic == "loyalty-rewards-changelog-g3"
    assert live_stores("rewards-west", settings) == ["rewards"]
    with pytest.raises(UnknownStoreError, match="the rows of store rewards-west are in rewards now"):
        live_store("rewards-west", settings)


def test_a_snapshot_of_any_generation_finds_its_store(settings: AppSettings) -> None:
    part, _ = live_store("rewards-west", settings)
    manifest = SnapshotManifest("rewards-west", "loyalty", 2, 4, "t", {0: 1}, Position(), 0, {0: 0}, "test", 0)
    assert store_in(manifest, part, settings) == part
    before = SnapshotManifest("rewards", "loyalty", 1, 1, "t", {0: 1}, Position(), 0, {0: 0}, "test", 0)
    assert store_in(before, REWARDS, settings) == REWARDS
