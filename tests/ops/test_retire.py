"""Retiring an app that the configuration doesn't name any more."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.apps import registry
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner, ServedStore
from storekeeper.errors import RefusedError
from storekeeper.generations.journal import Generation, GenerationState, Journal, JournalFile
from storekeeper.ops import retire as retiring
from storekeeper.ops.environment import app_settings
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.platform_apps import remember_apps, removed_stores
from storekeeper.ops.retire import retire
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo
from tests.deleted_topics import topics_of

CHANGELOG = "pos-rewards-changelog"
SERVED = f"rewards={CHANGELOG}"
OWN = ["old-again-repartition", "old-by-card", "old-rewards-changelog-g2", "old-sums-changelog-g2"]
FEEDS = ["clicks", "old-db-changelog", "old-points-changelog-g2", "old-rewards-changelog", "old-team-repartition"]
IDS = dict.fromkeys([*OWN, *FEEDS], "id")
"""What an app that was taken out has made, and what it has read."""
OTHERS = {name: app for name, app in registry.APPS.items() if name != "pos"}


class OneNode:
    """A supervisor that runs a node."""

    def names(self) -> list[str]:
        return ["node-a"]

    def processes(self) -> list[ProcessInfo]:
        return [ProcessInfo("node-a", "RUNNING", 7, 1, 0)]


@pytest.fixture
def deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are deleted. The node serves nothing."""
    served_by(RunLayout(tmp_path), "")
    gone: list[str] = []
    monkeypatch.setattr(retiring, "Topics", topics_of([CHANGELOG, "pos", *IDS], gone))
    monkeypatch.setattr(retiring, "running_supervisor", lambda _: OneNode())
    return gone


def test_what_a_node_serves_is_retired_and_deleted_after_the_next_apply(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    platform, layout = PlatformSettings.load(run_dir=tmp_path), RunLayout(tmp_path)
    remember_apps(tmp_path)
    served = {"rewards": ServedStore("key_value", None, {})}
    CheckpointOwner("pos", 1, topic_ids={CHANGELOG: "id", "pos": "id"}, served=served).write(
        app_settings(platform).checkpoint_dir("pos")
    )
    monkeypatch.setattr(registry, "APPS", OTHERS)
    monkeypatch.setattr(retiring, "APPS", OTHERS)
    remember_apps(tmp_path)
    served_by(layout, SERVED)
    with pytest.raises(RefusedError, match=r"nodes still serve them \(node-a\): run `storekeeper apply`, then"):
        retire("pos", platform, delete=True)
    assert (deleted, dict(removed_stores(tmp_path))) == ([], {}), "the next apply takes them from the nodes"
    with pytest.raises(RefusedError, match="nodes still serve them"):
        retire("pos", platform, delete=True)
    served_by(layout, "")
    assert retire("pos", platform, delete=True)["deleted_topics"] == [CHANGELOG]
    assert deleted == [CHANGELOG]


def test_what_a_node_follows_by_an_alias_is_not_deleted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    platform, layout, topics = PlatformSettings.load(run_dir=tmp_path), RunLayout(tmp_path), {"rewards": CHANGELOG}
    settings = app_settings(platform)
    retired = replace(Journal.first("pos", topics).live_generation, state=GenerationState.RETIRED)
    live = Generation(2, GenerationState.LIVE, {"rewards": f"{CHANGELOG}-g2"}, origin=1)
    JournalFile(settings.durable, "pos").write(Journal("pos", 2, {1: retired, 2: live}))
    CheckpointOwner("pos", 2, topic_ids={}).write(settings.in_generation(2).checkpoint_dir("pos"))
    monkeypatch.setattr(retiring, "Topics", topics_of([f"{CHANGELOG}-g2"], deleted))
    monkeypatch.setattr(retiring, "APPS", OTHERS)
    served_by(layout, SERVED)
    for _ in range(2):
        with pytest.raises(RefusedError, match="nodes still serve them"):
            retire("pos", platform, delete=True)
    assert deleted == []
    served_by(layout, "")
    assert retire("pos", platform, delete=True)["deleted_topics"] == [f"{CHANGELOG}-g2"]


def test_a_node_without_a_record_of_its_start_may_serve_anything(tmp_path: Path, deleted: list[str]) -> None:
    platform, layout = PlatformSettings.load(run_dir=tmp_path), RunLayout(tmp_path)
    CheckpointOwner("old", 1, topic_ids=IDS, repartitions={"old-by-card": "topic"}).write(
        app_settings(platform).checkpoint_dir("old")
    )
    layout.start_record("node-a").unlink()
    with pytest.raises(RefusedError, match=r"nodes still serve them \(node-a\)"):
        retire("old", platform, delete=True)
    assert deleted == []
    assert retire("old", platform, delete=False)["deleted_topics"] == []
    served_by(layout, "")
    assert retire("old", platform, delete=True)["deleted_topics"] == ["old-by-card"]


def test_a_source_that_is_named_like_a_topic_of_the_app_is_left(tmp_path: Path, deleted: list[str]) -> None:
    platform = PlatformSettings.load(run_dir=tmp_path)
    folder = app_settings(platform).in_generation(2).checkpoint_dir("old")
    claim = CheckpointOwner(
        "old", 2, "f7a3", IDS,
        stores={"sums": "key_value", "points": "key_value"},
        # `points` has a changelog of another name.
        slots={"clicks": ["store points", "topic clicks", "topic old-points-changelog-g2"]},
        served={"rewards": ServedStore("key_value", None, {})},
        repartitions={"old-again-repartition": "topic", "old-by-card": "topic", "old-team-repartition": "shuffle"},
    )  # fmt: skip
    claim.write(folder)
    replace(claim, app="clicks", repartitions={"clicks": "topic"}).write(folder.with_name("gen-3"))
    assert retire("old", platform, delete=True)["deleted_topics"] == OWN
    assert deleted == OWN


def test_a_deletion_that_was_killed_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deleted: list[str]
) -> None:
    platform = PlatformSettings.load(run_dir=tmp_path)
    settings = app_settings(platform)
    CheckpointOwner("old", 1, topic_ids=IDS).write(settings.checkpoint_dir("old"))
    layout = RunLayout(tmp_path)
    left = [settings.scale_file("old"), settings.state_dir / "old" / "0", layout.stopped / "old"]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for effect in ("delete_tree", "remove_folder"):
        with monkeypatch.context() as patched:
            patched.setattr(retiring, effect, killed)
            with pytest.raises(Killed):
                retire("old", platform, delete=True)
    retire("old", platform, delete=True)
    assert not [path for path in left if path.exists()]


class Killed(BaseException):
    """KILL."""


def killed(*_: object) -> None:
    raise Killed


def served_by(layout: RunLayout, stores: str) -> None:
    """Has the node been started with these stores."""
    record = layout.start_record("node-a")
    record.parent.mkdir(parents=True, exist_ok=True)
    record.write_text(json.dumps({"command": ["node"], "settings": f'stores = "{stores}"\n'}))
