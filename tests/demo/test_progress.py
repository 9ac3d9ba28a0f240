"""How far an app is."""

from __future__ import annotations

import pytest

from demo.progress import AppProgress, app_progress
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat

ENDS = {"pos": {0: 100, 1: 50}}


def _heartbeat(offsets: dict[str, int]) -> Heartbeat:
    return Heartbeat(
        "pos",
        1,
        7,
        AppState.RUNNING,
        started_at_ms=0,
        updated_at_ms=0,
        offsets={"pos": offsets} if offsets else {},
    )


@pytest.mark.parametrize(
    ("heartbeat", "processed", "done"),
    [
        (None, 0, False),
        (_heartbeat({}), 0, False),
        (_heartbeat({"0": 100, "1": 49}), 149, False),
        (_heartbeat({"0": 100, "1": 50}), 150, True),
        (_heartbeat({"0": 120, "1": 20}), 120, False),  # more in one partition doesn't make up for another
    ],
)
def test_only_reaching_every_end_is_done(heartbeat: Heartbeat | None, processed: int, done: bool) -> None:
    progress = app_progress(heartbeat, "pos", ENDS)
    assert progress == AppProgress("pos", processed, 150)
    assert progress.done is done


def test_an_app_of_two_topics_is_done_with_both() -> None:
    ends = {"pos": {0: 1}, "names": {0: 2}}
    assert app_progress(_heartbeat({"0": 1}), "pos", ends) == AppProgress("pos", 1, 3)
