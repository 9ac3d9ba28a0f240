"""What is deleted with a generation: topics that the app made, and none that it has read. The broker is played."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.generations import deletion
from storekeeper.generations.boundary import begin_behind
from storekeeper.generations.comparison import ComparisonVerdict
from storekeeper.generations.deletion import delete_generation
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import Generation, GenerationState
from tests.deleted_topics import topics_of

CHANGELOG, AGAIN = "pos-rewards-changelog", "pos-again-repartition"
FIRST = Generation(1, GenerationState.RETIRED, {"rewards": CHANGELOG})
READ = ["pos", "returns", "pos-team-repartition", AGAIN]
"""What the first generation has read. The installed code reads `pos` alone."""


@pytest.fixture
def deleted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The topics that are deleted."""
    gone: list[str] = []
    monkeypatch.setattr(deletion, "Topics", topics_of([*READ, CHANGELOG], gone))
    monkeypatch.setattr(deletion, "delete_remote_rows", lambda *_: None)
    return gone


def controller_in(run_dir: Path) -> GenerationController:
    """The controller of an app whose first generation has read those topics."""
    taken = GenerationController(
        POS, AppSettings(run_dir=run_dir), ManualClock(), lambda _: None, lambda _: None, not_compared, not_asked
    )
    begin_behind(taken.checkpoint(FIRST), Position({topic: {0: 5} for topic in READ}), "f7a3")
    return taken


def not_compared(source: Generation, target: Generation) -> ComparisonVerdict:
    raise AssertionError(f"generations {source.number} and {target.number} are not compared to be deleted")


def not_asked(topics: Iterable[str]) -> Position:
    raise AssertionError(f"the ends of {topics} don't matter")


def test_a_source_that_only_the_old_generation_has_read_is_left_and_named(tmp_path: Path, deleted: list[str]) -> None:
    taken = controller_in(tmp_path)
    ids = dict.fromkeys((*READ, CHANGELOG), "id")
    CheckpointOwner("pos", 1, "f7a3", ids, repartitions={AGAIN: "topic", "pos-team-repartition": "shuffle"}).write(
        taken.checkpoint(FIRST).path
    )
    assert delete_generation(taken, FIRST) == ["pos-team-repartition", "returns"]
    assert deleted == [AGAIN, CHANGELOG]
    assert not taken.checkpoint(FIRST).path.exists()


@pytest.mark.parametrize(
    "claim", [None, CheckpointOwner("points", 1, "f7a3", {AGAIN: ""}, repartitions={AGAIN: "topic"})]
)
def test_without_a_claim_of_its_own_no_name_proves_that_the_app_made_a_topic(
    tmp_path: Path, deleted: list[str], claim: CheckpointOwner | None
) -> None:
    taken = controller_in(tmp_path)
    if claim is not None:
        claim.write(taken.checkpoint(FIRST).path)
    assert delete_generation(taken, FIRST) == [AGAIN, "pos-team-repartition", "returns"]
    assert deleted == [CHANGELOG]
