"""What a run directory remembers of its apps."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.apps import registry
from storekeeper.errors import StorageError
from storekeeper.ops.platform_apps import (
    FILE,
    KnownStore,
    PlatformApps,
    forget_stores,
    known_stores,
    remember_apps,
    removed_stores,
)

OTHERS = {name: app for name, app in registry.APPS.items() if name != "pos"}
REWARDS = KnownStore("pos", "rewards=pos-rewards-changelog")


def test_what_is_written_is_what_is_read(tmp_path: Path) -> None:
    assert PlatformApps.remembered(tmp_path) is None
    remember_apps(tmp_path)
    assert PlatformApps.of(tmp_path) == PlatformApps.configured()
    assert PlatformApps.of(tmp_path).apps["pos"].changelogs["rewards"] == "pos-rewards-changelog"


def test_the_stores_of_a_removed_app_are_known_until_they_are_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_apps(tmp_path)
    assert removed_stores(tmp_path) == {}
    monkeypatch.setattr(registry, "APPS", OTHERS)
    for _ in range(2):
        remember_apps(tmp_path)
        assert PlatformApps.of(tmp_path).removed["rewards"] == REWARDS
        assert removed_stores(tmp_path)["rewards"] == known_stores(tmp_path)["rewards"] == REWARDS
        assert "pos" not in PlatformApps.of(tmp_path).apps
    forget_stores(tmp_path, "pos")
    assert removed_stores(tmp_path) == {}


def test_a_store_that_another_app_has_now_is_not_the_removed_apps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remember_apps(tmp_path)
    other = replace(registry.APPS["ticks"], stores=(*registry.APPS["ticks"].stores, registry.stores()["rewards"]))
    monkeypatch.setattr(registry, "APPS", {**OTHERS, "ticks": other})
    assert "rewards" not in removed_stores(tmp_path)


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("{")
    with pytest.raises(StorageError, match=r"apps\.json is damaged .*: remove it"):
        PlatformApps.of(tmp_path)
