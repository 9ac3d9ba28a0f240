from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.errors import UnusableCheckpointError
from spark_apps.runtime.checkpoint import SparkCheckpoint
from spark_apps.runtime.checkpoint_owner import CheckpointOwner, confirmed_owner, owner_file
from tests.spark_apps.checkpoints import write_checkpoint

MINE = CheckpointOwner("pos", 1, topic_ids={"pos": "AAA"})
QUERY = "d9d5a1ad-5d1b-4d4e-8a0e-0f9d6b4f4a11"


@pytest.fixture
def used(tmp_path: Path) -> SparkCheckpoint:
    write_checkpoint(tmp_path / "gen-1", [{"pos": {"0": 1}}], committed=1, initial=None)
    return SparkCheckpoint(tmp_path / "gen-1")


def test_a_new_checkpoint_can_be_claimed(tmp_path: Path) -> None:
    checkpoint = SparkCheckpoint(tmp_path / "gen-1")
    assert confirmed_owner(checkpoint, MINE) == MINE


def test_a_claim_survives_its_file_beside_the_folder(tmp_path: Path) -> None:
    MINE.write(tmp_path / "gen-1")
    assert CheckpointOwner.read(tmp_path / "gen-1") == MINE
    assert owner_file(tmp_path / "gen-1").parent == tmp_path
    assert CheckpointOwner.read(tmp_path / "gen-2") is None


def test_the_same_app_goes_on(used: SparkCheckpoint) -> None:
    replace(MINE, query_id=QUERY).write(used.path)
    assert confirmed_owner(used, MINE) == replace(MINE, query_id=QUERY)


def test_a_crash_between_claim_and_first_start_does_no_harm(used: SparkCheckpoint) -> None:
    MINE.write(used.path)
    assert confirmed_owner(used, MINE).query_id == QUERY


@pytest.mark.parametrize(
    ("earlier", "why"),
    [
        (None, "it has no claim"),
        (replace(MINE, app="ticks", query_id=QUERY), "claimed by ticks"),
        (replace(MINE, generation=2, query_id=QUERY), "generation 2"),
        (replace(MINE, query_id="another"), "another query wrote it"),
        (replace(MINE, query_id=QUERY, topic_ids={"pos": "BBB"}), "pos was deleted and made anew"),
    ],
)
def test_a_foreign_checkpoint_is_refused(used: SparkCheckpoint, earlier: CheckpointOwner | None, why: str) -> None:
    if earlier is not None:
        earlier.write(used.path)
    with pytest.raises(UnusableCheckpointError, match=why):
        confirmed_owner(used, MINE)


def test_a_checkpoint_that_lost_its_content_is_refused(tmp_path: Path) -> None:
    replace(MINE, query_id=QUERY).write(tmp_path / "gen-1")
    with pytest.raises(UnusableCheckpointError, match="its content is gone"):
        confirmed_owner(SparkCheckpoint(tmp_path / "gen-1"), MINE)


def test_a_damaged_claim_is_reported(tmp_path: Path) -> None:
    owner_file(tmp_path / "gen-1").write_text("{")
    with pytest.raises(UnusableCheckpointError, match=r"gen-1\.claim\.json"):
        CheckpointOwner.read(tmp_path / "gen-1")


@pytest.mark.parametrize("ids", [{}, {"pos-rewards-changelog": "DDD"}])
def test_an_app_whose_changelog_was_deleted_does_not_begin_without_its_state(
    used: SparkCheckpoint, ids: dict[str, str]
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
