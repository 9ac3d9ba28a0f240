from __future__ import annotations

from dataclasses import replace

import pytest

from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner, confirmed_owner, owner_file
from storekeeper.locations import Location
from tests.apps.checkpoints import write_checkpoint

MINE = CheckpointOwner("pos", 1, topic_ids={"pos": "AAA"})
QUERY = "d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11"


@pytest.fixture
def used(place: Location) -> BatchCheckpoint:
    write_checkpoint(place / "gen-1", [{"pos": {"0": 1}}], committed=1, initial=None)
    return BatchCheckpoint(place / "gen-1")


def test_a_new_checkpoint_can_be_claimed(place: Location) -> None:
    checkpoint = BatchCheckpoint(place / "gen-1")
    assert confirmed_owner(checkpoint, MINE) == MINE


def test_a_claim_survives_its_file_beside_the_folder(place: Location) -> None:
    MINE.write(place / "gen-1")
    assert CheckpointOwner.read(place / "gen-1") == MINE
    assert owner_file(place / "gen-1").parent == place
    assert CheckpointOwner.read(place / "gen-2") is None


def test_the_same_app_goes_on(used: BatchCheckpoint) -> None:
    replace(MINE, query_id=QUERY).write(used.path)
    assert confirmed_owner(used, MINE) == replace(MINE, query_id=QUERY)


def test_a_crash_between_claim_and_first_start_does_no_harm(used: BatchCheckpoint) -> None:
    MINE.write(used.path)
    assert confirmed_owner(used, MINE).query_id == QUERY


@pytest.mark.parametrize(
    ("earlier", "why"),
    [
        (None, "it has no claim"),
        (replace(MINE, app="ticks", query_id=QUERY), "claimed by ticks"),
        (replace(MINE, generation=2, query_id=QUERY), "generation 2"),
        (replace(MINE, query_id="another"), "another query wrote it"),
        (replace(MINE, query_id=QUERY, topic_ids={"pos": "BBB"}), "pos was deleted and recreated"),
    ],
)
def test_a_foreign_checkpoint_is_refused(used: BatchCheckpoint, earlier: CheckpointOwner | None, why: str) -> None:
    if earlier is not None:
        earlier.write(used.path)
    with pytest.raises(UnusableCheckpointError, match=why):
        confirmed_owner(used, MINE)


def test_a_checkpoint_that_lost_its_content_is_refused(place: Location) -> None:
    replace(MINE, query_id=QUERY).write(place / "gen-1")
    with pytest.raises(UnusableCheckpointError, match="its content is gone"):
        confirmed_owner(BatchCheckpoint(place / "gen-1"), MINE)


def test_a_damaged_claim_is_reported(place: Location) -> None:
    owner_file(place / "gen-1").write_bytes(b"{")
    with pytest.raises(UnusableCheckpointError, match=r"gen-1\.claim\.json"):
        CheckpointOwner.read(place / "gen-1")


@pytest.mark.parametrize("ids", [{}, {"pos-rewards-changelog": "DDD"}])
def test_an_app_whose_changelog_was_deleted_does_not_begin_without_its_state(
    used: BatchCheckpoint, ids: dict[str, str]
) -> None:
    own = ["pos-rewards-changelog"]
    begun = replace(MINE, query_id=QUERY, topic_ids={**MINE.topic_ids, own[0]: "CCC"})
    begun.write(used.path)
    with pytest.raises(
        UnusableCheckpointError, match="pos-rewards-changelog was deleted since generation 1 of pos began"
    ):
        confirmed_owner(used, replace(MINE, topic_ids={**MINE.topic_ids, **ids}), own)
    kept = replace(MINE, topic_ids=begun.topic_ids)
    assert confirmed_owner(used, kept, own).topic_ids == begun.topic_ids
    assert confirmed_owner(used, MINE).query_id == QUERY, "a store that the app has no more is not missed"
