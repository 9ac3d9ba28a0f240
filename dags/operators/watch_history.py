"""The watcher's memory of an app: a small JSON file, replaced as a whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import orjson

from dags.operators.watch_rules import WatchHistory
from state.whole_files import write_whole


def read_history(path: Path) -> WatchHistory:
    """What was written last; an empty memory if there is nothing, or nothing that this version understands."""
    try:
        fields = orjson.loads(path.read_bytes())
        return WatchHistory(fields["unhealthy_since_ms"], tuple(map(int, fields["restarts_ms"])))
    except (OSError, ValueError, TypeError, KeyError):
        return WatchHistory()


def write_history(path: Path, history: WatchHistory) -> None:
    """Replaces the file in one step; makes its folder if need be."""
    write_whole(path, orjson.dumps(asdict(history)))
