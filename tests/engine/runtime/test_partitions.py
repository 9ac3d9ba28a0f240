from __future__ import annotations

import pytest

from storekeeper.apps.errors import PartitionsChangedError
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import Describe, topology_app
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.topics import check_partitions, counts_in, state_topics
from tests.engine import topologies


def test_the_same_number_of_partitions_is_fine_and_so_are_topics_that_hold_no_state() -> None:
    check_partitions("board", {"games": 6}, {"games": 6})
    check_partitions("board", {"games": 6}, {"notes": 8})
    check_partitions("board", {}, {"games": 8})


@pytest.mark.parametrize("now", [5, 8])
def test_another_number_is_refused_with_topic_both_numbers_and_the_way_on(now: int) -> None:
    with pytest.raises(PartitionsChangedError) as caught:
        check_partitions("board", {"games": 6, "players": 4}, {"games": now, "players": 4})
    told = str(caught.value)
    assert f"topic games has {now} partitions, but the state of board was made with 6" in told
    assert "under a new name, on new topics" in told


def test_a_position_tells_how_many_partitions_each_topic_has() -> None:
    assert counts_in(Position({"games": {0: 3, 1: 0}, "notes": {0: 9}})) == {"games": 2, "notes": 1}


@pytest.mark.parametrize(
    ("app", "topics"),
    [
        ("pos", ("pos", "pos-rewards-changelog")),
        ("leaderboard", ("game-results", "leaderboard-players-changelog", "leaderboard-products-changelog")),
        ("hadoop_export", ()),
    ],
)
def test_sources_and_changelogs_of_an_app_with_state_must_keep_theirs(app: str, topics: tuple[str, ...]) -> None:
    found = state_topics(app_named(app), AppSettings())
    assert set(topics) <= set(found)
    assert bool(topics) == bool(found)


@pytest.mark.parametrize(
    ("describe", "topics"),
    [
        (topologies.paired, {"paired-left", "paired-right"}),
        (topologies.stateless, set()),
    ],
)
def test_stores_that_no_node_serves_fix_the_partitions_of_the_sources_too(describe: Describe, topics: set[str]) -> None:
    app = topology_app(describe.__name__, describe, title="")
    assert app.stores == ()
    assert set(state_topics(app, AppSettings())) == topics
