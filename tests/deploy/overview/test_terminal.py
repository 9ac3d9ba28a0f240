"""The glance as a terminal shows it."""

from __future__ import annotations

from io import StringIO

from rich.console import Console
from rich.text import Text

from deploy.overview.glance import ExitGlance, Glance, VerdictGlance
from deploy.overview.terminal import picture
from tests.deploy.airflow_plugin.test_page import SEEN


def shown(glance: Glance) -> str:
    console = Console(width=140, record=True, file=StringIO(), force_terminal=True, color_system="standard")
    console.print(picture(glance))
    return console.export_text(styles=True)


def test_estimates_counts_and_times_are_told_apart() -> None:
    told = Text.from_ansi(shown(SEEN)).plain
    assert "~5,691" in told
    assert "1,501" in told
    assert "none in 5 min" in told
    assert "4 of 8" in told
    assert "hangs" in told


def test_what_is_stopped_or_discarded_is_neither_green_nor_red() -> None:
    lines = shown(SEEN).splitlines()
    colored = {word: line for line in lines for word in ("STOPPED", "discarded", "RUNNING") if word in line}
    assert "\x1b[32mRUNNING" in colored["RUNNING"]
    assert "\x1b[32mSTOPPED" not in colored["STOPPED"]
    assert "\x1b[1;31mdiscarded" not in colored["discarded"]


def test_an_open_batch_is_red_and_a_process_that_died_leaves_a_trace() -> None:
    glance = Glance(
        0,
        verdicts=[VerdictGlance("hadoop_export", "quarantined", True, 126, 60_000)],
        exits=[ExitGlance("node-a", 2, "terminated by SIGKILL", 300_000)],
    )
    told = shown(glance)
    assert "\x1b[1;31mquarantined" in told
    (line,) = [line for line in told.splitlines() if "node-a" in line]
    assert "2" in line
    assert "terminated by SIGKILL" in line
    assert "5 min" in line
