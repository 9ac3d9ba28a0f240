"""Processes that ended by themselves, from a log of the supervisor."""

from __future__ import annotations

from pathlib import Path

from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview.run_files import exits, exits_in

LOG = """\
2026-11-23 18:00:00,123 WARN exited: pos (terminated by SIGKILL; not expected)
2026-11-23 18:00:01,000 INFO supervisord started with pid 12
2026-11-23 18:00:02,001 INFO spawned: 'node-a' with pid 13
2026-11-23 18:00:03,002 INFO exited: ticks-next (exit status 0; expected)
2026-11-23 18:00:04,003 WARN exited: node-a (exit status 1; not expected)
2026-11-23 18:00:05,004 WARN exited: node-a (terminated by SIGKILL; not expected)
2026-11-23 18:00:06,005 INFO stopped: kafka (exit status 143)
""".splitlines()


def test_each_is_there_once_with_how_often_and_how_since_the_last_start() -> None:
    seen = exits_in(LOG)
    assert {name: (one.count, one.last) for name, one in seen.items()} == {
        "ticks-next": (1, "exit status 0"),
        "node-a": (2, "terminated by SIGKILL"),
    }
    assert seen["node-a"].last_at_ms - seen["ticks-next"].last_at_ms == 2002


def test_without_a_log_there_is_none(tmp_path: Path) -> None:
    assert exits(RunLayout(tmp_path)) == {}
