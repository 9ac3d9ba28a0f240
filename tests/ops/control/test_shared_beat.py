from __future__ import annotations

from dataclasses import replace

from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, heartbeat_problem
from storekeeper.ops.control.app_control import shared_beat

TICKS = Heartbeat(
    *("ticks", 1, 7, AppState.RUNNING, 1_000, 5_000),
    last_progress_ms=4_000,
    offsets={"ticks": {"0": 3}, "both": {"0": 9, "1": 2}},
)
ORDERS = replace(TICKS, app="orders", updated_at_ms=4_500, last_progress_ms=3_000, offsets={"both": {"0": 4, "2": 1}})


def test_a_process_runs_if_all_of_its_apps_do_and_has_read_what_all_have() -> None:
    beat = shared_beat("shared_driver", [TICKS, ORDERS], 5_000)
    assert beat == replace(
        TICKS,
        app="shared_driver",
        updated_at_ms=4_500,
        last_progress_ms=3_000,
        offsets={"ticks": {"0": 3}, "both": {"0": 4, "1": 2, "2": 1}},
    )
    reversed_ = shared_beat("shared_driver", [ORDERS, TICKS], 5_000)
    assert reversed_ is not None
    assert reversed_.offsets == {"ticks": {"0": 3}, "both": {"0": 4, "1": 2, "2": 1}}
    failed = shared_beat(
        "shared_driver", [TICKS, replace(ORDERS, state=AppState.FAILED, error="gone", last_progress_ms=None)], 5_000
    )
    assert failed is not None
    assert (failed.state, failed.error, failed.last_progress_ms) == (AppState.FAILED, "gone", None)


def test_what_an_earlier_process_has_left_says_nothing_of_this_one() -> None:
    assert shared_beat("shared_driver", [], 5_000) is None
    assert shared_beat("shared_driver", [TICKS, None], 5_000) is None
    left = shared_beat("shared_driver", [replace(TICKS, pid=8, started_at_ms=2_000), ORDERS], 5_000)
    assert left is not None
    assert left.pid == ORDERS.pid, "no process of now"
    new = replace(ORDERS, pid=9, started_at_ms=6_000, state=AppState.STARTING)
    mixed = shared_beat("shared_driver", [TICKS, new], 5_000)
    assert mixed is not None
    assert (mixed.pid, mixed.state) == (TICKS.pid, AppState.RUNNING), "one that starts speaks for the others"


def test_one_app_says_what_it_says() -> None:
    assert shared_beat("ticks", [TICKS], 5_000) == TICKS


def test_a_heartbeat_of_a_later_time_is_not_hidden_by_one_of_now() -> None:
    late = replace(ORDERS, updated_at_ms=4_000_000)
    for beats in ([TICKS, late], [late, TICKS]):
        beat = shared_beat("shared_driver", beats, 5_000)
        assert beat is not None
        assert heartbeat_problem(beat, 7, 5_000) == "no heartbeat since the clock was set back"
