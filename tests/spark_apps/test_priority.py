from __future__ import annotations

import pytest

from spark_apps.priority import JOB_NICENESS, STREAM_NICENESS, niceness


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        (["run", "pos"], STREAM_NICENESS),
        (["run", "ticks", "leaderboard"], STREAM_NICENESS),
        (["generation", "run", "pos"], STREAM_NICENESS),
        (["generation", "handover", "pos"], STREAM_NICENESS),
        (["generation", "retire", "pos"], JOB_NICENESS),
        (["generation", "seed", "pos"], JOB_NICENESS),
        (["snapshot", "rewards"], JOB_NICENESS),
        (["check", "pos"], JOB_NICENESS),
        ([], JOB_NICENESS),
    ],
)
def test_how_far_each_command_stands_back(arguments: list[str], wanted: int) -> None:
    assert niceness(arguments) == wanted
