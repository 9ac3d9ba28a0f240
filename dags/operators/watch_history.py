"""The watcher's memory of an app: a small JSON file, replaced as a whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import orjson

from dags.operators.watch_rules import WatchHistory
from state.whole_files import write_whole


def read_history(path: Path) -> WatchHistory:
    """The history written last; an empty one if the file is missing or can't be parsed."""
    try:
        fields = orjson.loads(path.read_bytes())
        return WatchHistory(fields["unhealthy_since_ms"], tuple(map(int, fields["restarts_ms"])))
    except (OSError, ValueError, TypeError, KeyError):
        return WatchHistory()


def write_history(path: Path, history: WatchHistory) -> None:
    """Replaces the file in one step; makes its folder if need be."""
    write_whole(path, orjson.dumps(asdict(history)))
