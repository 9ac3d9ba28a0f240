"""The overview as a terminal shows it."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from deploy.overview.model import FROZEN, Overview, Process
from deploy.overview.terminal import picture
from spark_apps.registry import APPS
from spark_apps.runtime.heartbeat import AppState
from tests.deploy.overview.made_up import NOW_MS, SEEN, app, quarantined, store

STORES = (
    "rewards", "prices", "standings", "players", "products", "order-times", "orders", "order-locations", "seen-events",
    "user-sessions", "seen-sales", "sales", "sales-hopping",
)  # fmt: skip
WHOLE = replace(
    SEEN,
    processes=[],
    apps=[app(name, dead_letters_total=12_345, dropped_total=67) for name in APPS],
    stores=[store(name) for name in STORES],
    nodes=[SEEN.nodes[0]] * 3,
)


def shown(view: Overview, width: int = 150, height: int | None = None) -> str:
    console = Console(width=width, record=True, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(picture(view, width, height))
    return console.export_text(styles=True)


def plain(view: Overview, width: int = 80, height: int | None = 24) -> list[str]:
    return [line.rstrip() for line in Text.from_ansi(shown(view, width, height)).plain.splitlines()]


def test_counts_and_times_are_told_apart() -> None:
    told = "\n".join(plain(SEEN))
    for word in ("1,501", "none in 5 min", "4 of 8", "hangs", "restores 2 store partitions: 25 %, 9 s left"):
        assert word in told


def test_what_is_stopped_or_discarded_is_neither_green_nor_red() -> None:
    lines = shown(SEEN).splitlines()
    colored = {word: line for line in lines for word in ("STOPPED", "discarded", "RUNNING") if word in line}
    assert "\x1b[32mRUNNING" in colored["RUNNING"]
    assert "\x1b[32mSTOPPED" not in colored["STOPPED"]
    assert "\x1b[1;31mdiscarded" not in colored["discarded"]


def test_a_process_that_was_stopped_is_listed_and_no_error() -> None:
    stopped = Process("node-b", "STOPPED", False, None, None, "http://b", "stopped")
    given_up = Process("kafka", "FATAL", False, None, None, "b:1", "can't find command")
    told = plain(replace(SEEN, processes=[stopped, given_up]))
    assert "kafka: can't find command" in told
    assert not any(line.startswith("node-b:") for line in told)
    assert any(line.startswith("node-b ") and "STOPPED" in line for line in told)


def test_an_open_batch_is_red() -> None:
    assert "\x1b[1;31mquarantined" in shown(Overview(NOW_MS, verdicts=[quarantined()]))


def test_a_process_that_died_leaves_a_trace_and_a_frozen_one_is_named() -> None:
    frozen = Process("node-b", "RUNNING", False, 9, 1, "http://b", FROZEN)
    told = plain(replace(SEEN, processes=[*SEEN.processes, frozen]))
    assert f"node-b: {FROZEN}" in told
    (line,) = [line for line in told if line.startswith("node-a")]
    assert line.split() == ["node-a", "RUNNING", "2", "terminated", "by", "SIGKILL", "5", "min"]
    assert not any(line.startswith("pos ") and "RUNNING" in line and line.endswith("-") for line in told)


@pytest.mark.parametrize("height", [24, 12, None])
def test_the_whole_platform_fits_the_terminal_and_nothing_is_shortened(height: int | None) -> None:
    lines = plain(WHOLE, 80, height)
    assert max(map(len, lines)) <= 80
    assert not any("…" in line and "more" not in line for line in lines)
    if height is None:
        assert {line.split()[0] for line in lines} >= {*STORES, *APPS}
    else:
        assert len(lines) <= height


def test_rows_that_are_not_well_are_shown_when_others_are_left_out() -> None:
    stores = [*WHOLE.stores[:-1], replace(WHOLE.stores[-1], serving=3)]
    failed = [*WHOLE.apps[:-1], app("ticks", state=AppState.FAILED, error="no topic")]
    lines = plain(replace(WHOLE, stores=stores, apps=failed), 80, 15)
    assert any(line.startswith("sales-hopping") and "3 of 8" in line for line in lines)
    assert any(line.startswith("ticks") and "FAILED" in line for line in lines)
    assert "ticks: no topic" in lines
    assert len(lines) <= 15


def test_long_errors_are_wrapped_and_leave_room_for_the_tables() -> None:
    lines = plain(replace(WHOLE, unreachable="no node answered: " + "http://127.0.0.1:18101 does not answer; " * 20))
    assert (len(lines), max(map(len, lines))) == (24, 80)
    assert lines[5].endswith("more lines")
    assert any(line.startswith("table") for line in lines)


def test_a_wide_terminal_shows_more() -> None:
    assert "pos-rewards-changelog" in "\n".join(plain(SEEN, 200, 50))
    assert "pos-rewards-changelog" not in "\n".join(plain(SEEN))
