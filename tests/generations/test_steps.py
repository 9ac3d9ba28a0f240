from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.pos import POS
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.generations import steps
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.desired_state import DesiredState, Role, desired_state_of
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState, Journal
from tests.apps.checkpoints import write_checkpoint
from tests.integration.counted_app import COUNTED

COUNTED_APP = "tests.integration.counted_app"
TOPIC = "pos-rewards-changelog"
END = Position({"pos": {0: 20}})


def first() -> Journal:
    return Journal.first("pos", {"rewards": TOPIC})


def ready() -> Journal:
    journal = steps.seeded(steps.planned(first(), POS, ["rewards-tier"]), 2, Position({"pos": {0: 5}}), 7)
    return steps.started(journal, 2)


def aligning() -> Journal:
    journal = steps.waiting(steps.begun(ready(), 2, compares=True), Position({"pos": {0: 18}}))
    return steps.aligning(journal, END, source_batch=9, target_batch=4)


def handed_over() -> Journal:
    return steps.completed(steps.aligned(aligning()))


def who(journal: Journal) -> tuple[int | None, int | None]:
    live, other = desired_state_of(journal, Role.LIVE), desired_state_of(journal, Role.NEXT)
    return (live.generation.number if live else None, other.generation.number if other else None)


def test_a_generation_is_planned_once_with_the_changes_of_the_one_before() -> None:
    journal = steps.planned(first(), POS, ["rewards-tier"])
    assert journal.candidate == Generation(
        2, GenerationState.PLANNED, {"rewards": f"{TOPIC}-g2"}, origin=1, migrations=("rewards-tier",)
    )
    assert steps.planned(journal, POS, ["rewards-tier"]) == journal
    with pytest.raises(GenerationRefusedError, match="generation 2 is already under way"):
        steps.planned(journal, POS, [])


def test_changes_follow_those_that_were_made_before() -> None:
    journal = steps.retired(handed_over(), 1)
    journal = steps.planned(journal, POS, ["rewards-by-region"], 12)
    candidate = journal.candidate
    assert candidate is not None
    assert (candidate.number, candidate.topics, candidate.origin) == (3, {"rewards": f"{TOPIC}-g3"}, 2)
    assert candidate.migrations == ("rewards-tier", "rewards-by-region")


def test_a_generation_keeps_the_number_of_partitions_of_the_one_before() -> None:
    live = replace(handed_over().live_generation, partitions=12)
    journal = steps.retired(handed_over().updated(live), 1)
    for partitions, expected in ((None, 12), (7, 7)):
        made = steps.planned(journal, POS, [], partitions)
        assert made.generation(3).partitions == expected
        assert steps.planned(made, POS, [], partitions) == made


def test_a_generation_has_a_changelog_for_every_store_of_its_topology() -> None:
    journal = steps.planned(first_journal(COUNTED), COUNTED, [f"{COUNTED_APP}:BY_LETTER", f"{COUNTED_APP}:WITH_FULL"])
    candidate = journal.candidate
    assert candidate is not None
    assert candidate.topics == {store: f"counted-{store}-changelog-g2" for store in ("sums", "numbers", "tens")}


def test_a_plan_notes_the_stores_that_the_live_topology_has_got_since() -> None:
    journal = first_journal(COUNTED)
    old = replace(journal.live_generation, topics={"sums": "counted-sums-changelog"})
    made = steps.planned(journal.updated(old), COUNTED, [])
    assert made.live_generation.topics == first_journal(COUNTED).live_generation.topics


def test_a_backfill_is_another_generation_than_a_seeded_one() -> None:
    journal = steps.planned(first(), POS, [], since="beginning")
    assert steps.planned(journal, POS, [], since="beginning") == journal
    with pytest.raises(GenerationRefusedError, match="is already under way"):
        steps.planned(journal, POS, [])


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["rewards-by-region"], "put the missing ones in front"),
        (["rewards-tier", "rewards-tier"], "makes version 2"),
        (["nonsense"], "there is no migration 'nonsense': choose one of rewards-tier"),
        (["tests.generations.test_migration:TIER"], None),
        (["tests.generations.test_migration:with_tier"], "is not a migration"),
    ],
)
def test_changes_that_do_not_fit_are_refused(names: list[str], says: str | None) -> None:
    if says is None:
        assert steps.planned(first(), POS, names).candidate is not None
    else:
        with pytest.raises(GenerationRefusedError, match=says):
            steps.planned(first(), POS, names)


def test_no_generation_is_planned_while_one_stands_by() -> None:
    with pytest.raises(GenerationRefusedError, match="generation 1 stands by"):
        steps.planned(handed_over(), POS, ["rewards-by-region"])


def test_outputs_change_hands_at_the_batches_that_end_at_the_same_place() -> None:
    journal = handed_over()
    old, new = journal.generation(1), journal.generation(2)
    assert (journal.live, journal.standby, journal.transfer) == (2, old, None)
    assert [old.writes_outputs(batch) for batch in (0, 9, 10)] == [True, True, False]
    assert [new.writes_outputs(batch) for batch in (0, 4, 5)] == [False, False, True]


@pytest.mark.parametrize("phase", ["BEGUN", "WAITING", "ALIGNING", "ALIGNED"])
def test_a_hand_over_that_is_called_off_leaves_everything_as_it_was(phase: str) -> None:
    journal = {
        "BEGUN": steps.begun(ready(), 2, compares=True),
        "WAITING": steps.waiting(steps.begun(ready(), 2, compares=True), END),
        "ALIGNING": aligning(),
        "ALIGNED": steps.aligned(aligning()),
    }[phase]
    undone = steps.called_off(journal)
    assert (undone.live, undone.transfer) == (1, None)
    assert undone.generation(2) == ready().generation(2)
    assert all(undone.generation(1).writes_outputs(batch) for batch in (0, 9, 10, 11, 10**6))
    assert steps.called_off(undone) == undone


def test_a_hand_over_is_begun_once_and_only_to_what_runs() -> None:
    begun = steps.begun(ready(), 2, compares=True)
    assert steps.begun(begun, 2, compares=True) == begun
    with pytest.raises(GenerationRefusedError, match="a hand-over to generation 2 is under way"):
        steps.begun(begun, 1, compares=True)
    with pytest.raises(GenerationRefusedError, match="generation 2 is PLANNED"):
        steps.begun(steps.planned(first(), POS, []), 2, compares=True)
    with pytest.raises(GenerationRefusedError, match="has no generation 7"):
        steps.begun(ready(), 7, compares=True)


def test_only_what_is_not_live_can_be_retired() -> None:
    with pytest.raises(GenerationRefusedError, match="generation 2 is live"):
        steps.retired(handed_over(), 2)
    with pytest.raises(GenerationRefusedError, match="a hand-over is under way"):
        steps.retired(aligning(), 2)
    retired = steps.retired(handed_over(), 1)
    assert (retired.standby, retired.candidate) == (None, None)
    assert steps.retired(retired, 1) == retired
    assert steps.retired(ready(), 2).candidate is None


def test_processes_change_places_once_the_successor_is_live() -> None:
    assert who(first()) == (1, None)
    assert who(steps.planned(first(), POS, [])) == (1, None)
    assert who(ready()) == who(aligning()) == who(steps.aligned(aligning())) == (1, 2)
    assert who(handed_over()) == (2, 1)
    assert who(steps.retired(handed_over(), 1)) == (2, None)


def checkpoint(path: Path, *, planned: int, committed: int) -> BatchCheckpoint:
    write_checkpoint(
        path, [{"pos": {"0": 2 * end}} for end in range(1, planned + 1)], committed=committed, initial=None
    )
    return BatchCheckpoint(path)


def desired(journal: Journal, role: Role) -> DesiredState:
    found = desired_state_of(journal, role)
    assert found is not None
    return found


def test_what_is_told_to_hold_finishes_the_batch_that_is_planned(tmp_path: Path) -> None:
    told = desired(steps.begun(ready(), 2, compares=True), Role.NEXT)
    assert told.fulfilled(checkpoint(tmp_path / "a", planned=3, committed=3))
    unfinished = checkpoint(tmp_path / "b", planned=3, committed=2)
    assert not told.fulfilled(unfinished)
    assert not told.reached(unfinished, owed=2)
    assert told.reached(unfinished, owed=1)
    assert told.fulfilled(BatchCheckpoint(tmp_path / "none"))


def test_the_predecessor_goes_on_until_it_has_what_the_successor_has(tmp_path: Path) -> None:
    assert not desired(steps.begun(ready(), 2, compares=True), Role.LIVE).holds
    told = desired(steps.waiting(steps.begun(ready(), 2, compares=True), Position({"pos": {0: 5}})), Role.LIVE)
    assert not told.reached(checkpoint(tmp_path / "a", planned=3, committed=2))
    assert told.fulfilled(checkpoint(tmp_path / "b", planned=3, committed=3))


def test_the_successor_runs_to_the_batch_that_ends_where_the_predecessor_has_ended(tmp_path: Path) -> None:
    told = desired(aligning(), Role.NEXT)
    assert (told.batch, told.holds) == (4, True)
    assert not told.reached(checkpoint(tmp_path / "a", planned=5, committed=4))
    assert told.fulfilled(checkpoint(tmp_path / "b", planned=5, committed=5))
    assert desired(steps.aligned(aligning()), Role.NEXT).holds
    assert desired(aligning(), Role.LIVE).holds


def test_what_runs_freely_is_never_done(tmp_path: Path) -> None:
    for role in Role:
        told = desired(handed_over(), role)
        assert not told.holds
        assert not told.fulfilled(checkpoint(tmp_path / role, planned=3, committed=3))


def test_planning_the_next_change_leaves_the_live_process_alone() -> None:
    before = steps.retired(handed_over(), 1)
    after = steps.planned(before, POS, ["rewards-by-region"])
    assert desired_state_of(before, Role.LIVE) == desired_state_of(after, Role.LIVE)


def test_a_transfer_of_a_phase_without_a_hand_over_is_refused() -> None:
    with pytest.raises(GenerationRefusedError, match="no hand-over of pos is under way"):
        steps.waiting(ready(), END)
