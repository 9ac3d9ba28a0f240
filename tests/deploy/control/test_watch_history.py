from __future__ import annotations

from pathlib import Path

import pytest

from deploy.control.watch import WatchHistory, read_history, write_history


def test_what_was_written_is_remembered(tmp_path: Path) -> None:
    history = WatchHistory(unhealthy_since_ms=5, restarts_ms=(1, 2))
    write_history(tmp_path / "watch" / "pos.json", history)
    assert read_history(tmp_path / "watch" / "pos.json") == history


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"unhealthy_since_ms": null, "restarts_ms": 3}'])
def test_a_damaged_memory_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "pos.json").write_text(content)
    assert read_history(tmp_path / "pos.json") == WatchHistory()
    assert read_history(tmp_path / "absent.json") == WatchHistory()
