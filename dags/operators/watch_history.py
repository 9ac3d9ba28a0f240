"""The watcher's memory of an app: a small JSON file, replaced as a whole."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import orjson

from dags.operators.watch_rules import WatchHistory


def read_history(path: Path) -> WatchHistory:
    """What was written last; an empty memory if there is nothing, or nothing that this version understands."""
    try:
        fields = orjson.loads(path.read_bytes())
        return WatchHistory(fields["unhealthy_since_ms"], tuple(map(int, fields["restarts_ms"])))
    except (OSError, ValueError, TypeError, KeyError):
        return WatchHistory()


def write_history(path: Path, history: WatchHistory) -> None:
    """Replaces the file in one step; makes its folder if need be."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(path.name + ".new")
    draft.write_bytes(orjson.dumps(asdict(history)))
    draft.replace(path)
