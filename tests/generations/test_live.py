"""What a store is now, and what it was in the generation of a snapshot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.apps.registry import store_named
from storekeeper.apps.settings import AppSettings
from storekeeper.errors import UnknownStoreError
from storekeeper.generations.catalog import topology_of
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.live import live_from, live_store, live_topology, store_in
from tests.generations.test_steps import handed_over
from tests.snapshot_tables import manifest_of

REWARDS = POS.stores[0]


def test_a_store_that_never_changed_is_itself(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    assert live_store("rewards", settings) == (REWARDS, settings)


def test_a_store_has_the_topic_and_fields_of_the_live_generation(tmp_path: Path) -> None:
    JournalFile(tmp_path, "pos").write(handed_over())
    store, settings = live_store("rewards", AppSettings(run_dir=tmp_path))
    assert (store.changelog_topic, store.schema_version, settings.generation) == ("pos-rewards-changelog-g2", 2, 2)
    assert store.value_fields[1].name == "Tier"


def test_a_snapshot_is_of_the_generation_that_it_names(tmp_path: Path) -> None:
    JournalFile(tmp_path, "pos").write(handed_over())
    settings = AppSettings(run_dir=tmp_path)
    manifest = manifest_of([], store="rewards", app="pos", generation=1, changelog_topic=REWARDS.changelog_topic)
    live, _ = live_store("rewards", settings)
    assert store_in(manifest, live, settings) == REWARDS
    assert store_in(replace(manifest, generation=2), REWARDS, settings) == live
    prices = store_named("prices")
    assert store_in(manifest, prices, settings) == prices


def test_a_generation_that_the_environment_names_has_changelogs_of_its_own(tmp_path: Path) -> None:
    JournalFile(tmp_path, "pos").write(handed_over())
    store, settings = live_store("rewards", AppSettings(run_dir=tmp_path, generation=7))
    assert (store.changelog_topic, store.schema_version, settings.generation) == ("pos-rewards-changelog-g7", 1, 7)
    store, _ = live_store("rewards", AppSettings(run_dir=tmp_path, generation=1))
    assert store == REWARDS


def test_the_batch_since_which_a_store_is_live_is_that_of_its_generation(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    assert live_from(*live_store("rewards", settings)) == 0
    JournalFile(tmp_path, "pos").write(journal := handed_over())
    assert live_from(*live_store("rewards", settings)) == journal.generation(2).live_from > 0


def test_no_app_keeps_a_store_of_another_name(tmp_path: Path) -> None:
    with pytest.raises(UnknownStoreError):
        live_store("rewards-north", AppSettings(run_dir=tmp_path))


def test_an_apps_topology_is_that_of_its_live_generation(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    assert live_topology(POS, settings).describe() == topology_of(POS, []).describe()
    handed = handed_over()
    by_region = replace(handed.live_generation, migrations=("rewards-tier", "rewards-by-region"))
    JournalFile(tmp_path, "pos").write(replace(handed, generations={**handed.generations, handed.live: by_region}))
    assert live_topology(POS, settings).describe() == topology_of(POS, by_region.migrations).describe()
    assert live_topology(POS, settings).describe() != topology_of(POS, []).describe()
