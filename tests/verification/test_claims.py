"""What a manifest says is compared with the store, its generations and the topics."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.journal import GenerationState, JournalFile
from storekeeper.generations.live import live_store
from storekeeper.generations.steps import planned
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.verification.claims import wrong_claims
from tests.snapshot_tables import manifest_of

NOW_MS = 1_760_000_000_000
REWARDS = POS.stores[0]


@dataclass
class FakeTopics:
    """Topics by their partitions' ends."""

    ends: dict[str, dict[int, int]]

    def names(self) -> list[str]:
        return list(self.ends)

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        return {name: len(self.ends[name]) for name in names}

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"id of {name}" for name in names}

    def committed_end(self, names: Iterable[str]) -> Position:
        return Position({name: self.ends[name] for name in names})


TOPICS = FakeTopics({REWARDS.changelog_topic: {0: 100, 1: 50}, "pos": {0: 1000}})


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    return AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1")


def manifest(**changes: Any) -> SnapshotManifest:
    return manifest_of(
        [],
        **{
            "store": "rewards",
            "app": "pos",
            "changelog_topic": REWARDS.changelog_topic,
            "changelog_offsets": {0: 100, 1: 49},
            "digests": {0: 0, 1: 0},
            "source_offsets": Position({"pos": {0: 1000}}),
            "batch_ms": NOW_MS,
            "changelog_id": f"id of {REWARDS.changelog_topic}",
            "schema_version": REWARDS.schema_version,
            "kind": REWARDS.kind,
            **changes,
        },
    )


def claims_of(found: SnapshotManifest, settings: AppSettings, topics: FakeTopics = TOPICS) -> list[str]:
    spec, live = live_store("rewards", settings)
    return list(wrong_claims(found, spec, live, topics, now_ms=NOW_MS))  # type: ignore[arg-type]


def test_the_manifest_of_a_snapshot_claims_what_is_so(settings: AppSettings) -> None:
    assert claims_of(manifest(), settings) == []
    assert claims_of(manifest(source_offsets=Position({"pos": {0: 7}, "gone": {0: 9}})), settings) == []


def wrong() -> Iterator[tuple[dict[str, Any], str]]:
    yield {"store": "sales"}, "its manifest says store sales, and it is rewards"
    yield {"app": "sales"}, "its manifest says app sales, and it is pos"
    yield {"kind": ServedKind.WINDOW}, f"its manifest says kind window, and it is {REWARDS.kind.value}"
    yield {"score_field": "Points"}, "its manifest says score field Points, and it is None"
    yield {"changelog_topic": "pos"}, f"its manifest says changelog topic pos, and it is {REWARDS.changelog_topic}"
    yield {"by_schema": True}, "its manifest says values by schemas True, and it is False"
    yield {"generation": 7}, "its manifest is of generation 7, which pos has never had"
    yield {"schema_version": 99}, f"its manifest says schema version 99, and the store has {REWARDS.schema_version}"
    yield {"schema_version": 0}, f"its manifest says schema version 0, and the store has {REWARDS.schema_version}"
    yield {"batch_ms": NOW_MS * 2}, f"its manifest is of a time that has not come, {NOW_MS * 2} ms"
    topic = REWARDS.changelog_topic
    yield (
        {"changelog_offsets": {0: 101, 1: 49}},
        (f"its manifest reaches to offset 101 of {topic} partition 0, which ends at 100"),
    )
    yield (
        {"changelog_offsets": {0: 1, 1: -1}},
        (f"its manifest reaches to offset -1 of {topic} partition 1, which ends at 50"),
    )
    yield {"changelog_offsets": {0: 1}, "digests": {0: 0}}, f"its manifest names 1 of the 2 partitions of {topic}"
    yield (
        {"changelog_offsets": {0: 1, 1: 1, 2: 1}, "digests": {0: 0, 1: 0, 2: 0}},
        (f"its manifest names partition 2 of {topic}, which has 2"),
    )
    yield {"changelog_id": "other"}, f"its manifest is of another topic {topic}: that was deleted and recreated since"
    yield {"digests": {0: 0}}, "its manifest has digests and offsets of different partitions"
    yield (
        {"source_offsets": Position({"pos": {0: 1001}})},
        ("its manifest reaches to offset 1001 of pos partition 0, which ends at 1000"),
    )


@pytest.mark.parametrize(("changes", "sentence"), [*wrong()])
def test_a_claim_that_is_not_so_is_told(settings: AppSettings, changes: dict[str, Any], sentence: str) -> None:
    assert sentence in claims_of(manifest(**changes), settings)


def test_a_snapshot_is_as_its_generation_was(settings: AppSettings) -> None:
    journal = planned(first_journal(POS), POS, ("rewards-tier",))
    live = replace(journal.generation(2), state=GenerationState.LIVE)
    generations = {**journal.generations, 2: live}
    JournalFile(settings.durable, "pos").write(replace(journal, live=2, generations=generations))
    assert claims_of(manifest(), settings) == []
    wrong_topic = claims_of(manifest(generation=2), settings)
    assert wrong_topic == [
        f"its manifest says changelog topic {REWARDS.changelog_topic}, and it is {live.topics['rewards']}"
    ]
    topic = live.topics["rewards"]
    topics = FakeTopics({topic: {0: 100, 1: 50}, "pos": {0: 1000}})
    own = {"changelog_topic": topic, "changelog_id": f"id of {topic}", "generation": 2, "schema_version": 2}
    assert claims_of(manifest(**own), settings, topics) == []
