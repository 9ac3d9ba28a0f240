from __future__ import annotations

from pathlib import Path

import orjson
import pytest
from spark_apps.loyalty.migrations import REWARDS_SPLIT

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.generations import steps
from spark_apps.generations.errors import GenerationRefusedError
from spark_apps.generations.journal import Generation, GenerationState, Journal
from spark_apps.generations.orders import Orders, Role, orders_for
from state.changelog.position import Position
from tests.spark_apps.checkpoints import write_checkpoint

TOPIC = "loyalty-rewards-changelog"
END = Position({"pos": {0: 20}})


def first() -> Journal:
    return Journal.first("loyalty", {"rewards": TOPIC})


def ready() -> Journal:
    journal = steps.seeded(steps.planned(first(), ["rewards-tier"], None), 2, Position({"pos": {0: 5}}), 7)
    return steps.started(journal, 2)


def switched() -> Journal:
    journal = steps.waiting(steps.begun(ready(), 2, compares=True), Position({"pos": {0: 18}}))
    return steps.switched(journal, END, source_batch=9, target_batch=4)


def handed_over() -> Journal:
    return steps.completed(steps.aligned(switched()))


def who(journal: Journal) -> tuple[int | None, int | None]:
    live, other = orders_for(journal, Role.LIVE), orders_for(journal, Role.NEXT)
    return (live.generation.number if live else None, other.generation.number if other else None)


def test_a_generation_is_planned_once_with_the_changes_of_the_one_before() -> None:
    journal = steps.planned(first(), ["rewards-tier"], None)
    assert journal.candidate == Generation(
        2, GenerationState.PLANNED, {"rewards": f"{TOPIC}-g2"}, origin=1, migrations=("rewards-tier",)
    )
    assert steps.planned(journal, ["rewards-tier"], None) == journal
    with pytest.raises(GenerationRefusedError, match="generation 2 is on its way already"):
        steps.planned(journal, [], None)


def test_changes_follow_those_that_were_made_before() -> None:
    journal = steps.retired(handed_over(), 1)
    journal = steps.planned(journal, ["rewards-by-region"], 12)
    candidate = journal.candidate
    assert candidate is not None
    assert (candidate.number, candidate.topics, candidate.origin) == (3, {"rewards": f"{TOPIC}-g3"}, 2)
    assert candidate.migrations == ("rewards-tier", "rewards-by-region")


SPLIT = ("rewards-tier", "rewards-by-region", "rewards-split")
PARTS = {store: f"loyalty-{store}-changelog-g2" for store in REWARDS_SPLIT.stores}


def split() -> Journal:
    """After a split."""
    journal = steps.started(steps.seeded(steps.planned(first(), SPLIT, None), 2, END, 7), 2)
    journal = steps.waiting(steps.begun(journal, 2, compares=True), END)
    return steps.completed(steps.aligned(steps.switched(journal, END, source_batch=9, target_batch=4)))


def test_a_split_has_a_changelog_for_each_store_and_a_merge_has_one_again() -> None:
    journal = split()
    live = journal.live_generation
    assert (live.parts, live.topics) == (PARTS, {"rewards": PARTS["rewards-north"]})
    assert Journal.from_json(journal.to_json()) == journal
    journal = steps.planned(steps.retired(journal, 1), ["rewards-merge"], None)
    candidate = journal.candidate
    assert candidate is not None
    assert (candidate.topics, candidate.parts) == ({"rewards": f"{TOPIC}-g3"}, {})


def test_a_name_is_a_former_one_once_every_generation_that_has_it_is_retired() -> None:
    journal = split()
    assert journal.former_stores == ()
    journal = steps.retired(journal, 1)
    assert journal.former_stores == ("rewards",)
    journal = steps.planned(journal, ["rewards-merge"], None)
    assert journal.former_stores == (), "it is on its way again"
    assert journal.every_store == {"rewards", *PARTS}


@pytest.mark.parametrize("had_parts", [True, False])
def test_a_journal_of_before_apps_could_have_several_stores_is_read(*, had_parts: bool) -> None:
    written = split() if had_parts else handed_over()
    content = orjson.loads(written.to_json()) | {"store": "rewards"}
    for item in content["generations"]:
        item["topic"] = item["topics"]["rewards"]
        parts = item.pop("parts")
        del item["topics"]
        if had_parts:
            item["topics"] = parts
    assert Journal.from_json(orjson.dumps(content)) == written


def test_a_generation_of_an_app_with_several_stores_has_a_changelog_for_each() -> None:
    topics = {"sums": "counted-sums-changelog", "tens": "counted-tens-changelog"}
    counted = "tests.integration.counted_app"
    journal = steps.planned(Journal.first("counted", topics), [f"{counted}:BY_LETTER", f"{counted}:WITH_FULL"], None)
    candidate = journal.candidate
    assert candidate is not None
    assert (candidate.topics, candidate.parts) == ({store: f"{topic}-g2" for store, topic in topics.items()}, {})
    assert [candidate.own_store(store) for store in candidate.changelogs] == ["sums", "tens"]


def test_rows_never_go_to_another_apps_store() -> None:
    with pytest.raises(GenerationRefusedError, match="can't go to store prices: that is a store of ticks"):
        steps.topics_of_parts("loyalty", ("rewards", "prices"), 2)


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["rewards-by-region"], "put the missing ones in front"),
        (["rewards-tier", "rewards-tier"], "makes version 2"),
        (["nonsense"], "there is no migration 'nonsense': choose one of rewards-tier"),
        (["tests.spark_apps.generations.test_migration:TIER"], None),
        (["tests.spark_apps.generations.test_migration:with_tier"], "is no migration"),
    ],
)
def test_changes_that_do_not_fit_are_refused(names: list[str], says: str | None) -> None:
    if says is None:
        assert steps.planned(first(), names, None).candidate is not None
    else:
        with pytest.raises(GenerationRefusedError, match=says):
            steps.planned(first(), names, None)


def test_no_generation_is_planned_while_one_stands_by() -> None:
    with pytest.raises(GenerationRefusedError, match="generation 1 stands by"):
        steps.planned(handed_over(), ["rewards-by-region"], None)


def test_outputs_change_hands_at_the_batches_that_end_at_the_same_place() -> None:
    journal = handed_over()
    old, new = journal.generation(1), journal.generation(2)
    assert (journal.live, journal.standby, journal.transfer) == (2, old, None)
    assert [old.writes_outputs(batch) for batch in (0, 9, 10)] == [True, True, False]
    assert [new.writes_outputs(batch) for batch in (0, 4, 5)] == [False, False, True]


@pytest.mark.parametrize("phase", ["BEGUN", "WAITING", "SWITCHED", "ALIGNED"])
def test_a_hand_over_that_is_called_off_leaves_everything_as_it_was(phase: str) -> None:
    journal = {
        "BEGUN": steps.begun(ready(), 2, compares=True),
        "WAITING": steps.waiting(steps.begun(ready(), 2, compares=True), END),
        "SWITCHED": switched(),
        "ALIGNED": steps.aligned(switched()),
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
        steps.begun(steps.planned(first(), [], None), 2, compares=True)
    with pytest.raises(GenerationRefusedError, match="has no generation 7"):
        steps.begun(ready(), 7, compares=True)


def test_only_what_is_not_live_can_be_retired() -> None:
    with pytest.raises(GenerationRefusedError, match="generation 2 is live"):
        steps.retired(handed_over(), 2)
    with pytest.raises(GenerationRefusedError, match="a hand-over is under way"):
        steps.retired(switched(), 2)
    retired = steps.retired(handed_over(), 1)
    assert (retired.standby, retired.candidate) == (None, None)
    assert steps.retired(retired, 1) == retired
    assert steps.retired(ready(), 2).candidate is None


def test_processes_change_places_once_the_successor_is_live() -> None:
    assert who(first()) == (1, None)
    assert who(steps.planned(first(), [], None)) == (1, None)
    assert who(ready()) == who(switched()) == who(steps.aligned(switched())) == (1, 2)
    assert who(handed_over()) == (2, 1)
    assert who(steps.retired(handed_over(), 1)) == (2, None)


def checkpoint(path: Path, *, planned: int, committed: int) -> SparkCheckpoint:
    write_checkpoint(
        path, [{"pos": {"0": 2 * end}} for end in range(1, planned + 1)], committed=committed, initial=None
    )
    return SparkCheckpoint(path)


def orders(journal: Journal, role: Role) -> Orders:
    found = orders_for(journal, role)
    assert found is not None
    return found


def test_what_is_told_to_hold_finishes_the_batch_that_is_planned(tmp_path: Path) -> None:
    told = orders(steps.begun(ready(), 2, compares=True), Role.NEXT)
    assert told.fulfilled(checkpoint(tmp_path / "a", planned=3, committed=3))
    unfinished = checkpoint(tmp_path / "b", planned=3, committed=2)
    assert not told.fulfilled(unfinished)
    assert not told.reached(unfinished, owed=2)
    assert told.reached(unfinished, owed=1)
    assert told.fulfilled(SparkCheckpoint(tmp_path / "none"))


def test_the_predecessor_goes_on_until_it_has_what_the_successor_has(tmp_path: Path) -> None:
    assert not orders(steps.begun(ready(), 2, compares=True), Role.LIVE).holds
    told = orders(steps.waiting(steps.begun(ready(), 2, compares=True), Position({"pos": {0: 5}})), Role.LIVE)
    assert not told.reached(checkpoint(tmp_path / "a", planned=3, committed=2))
    assert told.fulfilled(checkpoint(tmp_path / "b", planned=3, committed=3))


def test_the_successor_runs_to_the_batch_that_ends_where_the_predecessor_has_ended(tmp_path: Path) -> None:
    told = orders(switched(), Role.NEXT)
    assert (told.batch, told.holds) == (4, True)
    assert not told.reached(checkpoint(tmp_path / "a", planned=5, committed=4))
    assert told.fulfilled(checkpoint(tmp_path / "b", planned=5, committed=5))
    assert orders(steps.aligned(switched()), Role.NEXT).holds
    assert orders(switched(), Role.LIVE).holds


def test_what_runs_freely_is_never_done(tmp_path: Path) -> None:
    for role in Role:
        told = orders(handed_over(), role)
        assert not told.holds
        assert not told.fulfilled(checkpoint(tmp_path / role, planned=3, committed=3))


def test_planning_the_next_change_leaves_the_live_process_alone() -> None:
    before = steps.retired(handed_over(), 1)
    after = steps.planned(before, ["rewards-by-region"], None)
    assert orders_for(before, Role.LIVE) == orders_for(after, Role.LIVE)


def test_a_transfer_of_a_phase_without_a_hand_over_is_refused() -> None:
    with pytest.raises(GenerationRefusedError, match="no hand-over of loyalty is under way"):
        steps.waiting(ready(), END)
