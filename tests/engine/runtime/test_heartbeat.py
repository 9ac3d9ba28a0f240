from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import orjson
import pytest

from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, heartbeat_problem, read_heartbeat, write_heartbeat

BEAT = Heartbeat(
    app="pos",
    generation=1,
    pid=7,
    state=AppState.RUNNING,
    started_at_ms=1_000,
    updated_at_ms=2_000,
    offsets={"pos": {"0": 5}},
    latest_offsets={"pos": {"0": 6}},
)


def test_a_beat_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "heartbeats" / "pos.json"
    write_heartbeat(path, BEAT)
    assert read_heartbeat(path) == BEAT
    assert [entry.name for entry in path.parent.iterdir()] == ["pos.json"]


def test_the_file_is_one_flat_object(tmp_path: Path) -> None:
    write_heartbeat(tmp_path / "a.json", BEAT)
    content = orjson.loads((tmp_path / "a.json").read_bytes())
    assert set(content) == {item.name for item in fields(Heartbeat)}
    assert content["state"] == "RUNNING"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"state":"DANCING"}', b"\xff"])
def test_what_is_no_heartbeat_reads_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.json").write_bytes(content)
    assert read_heartbeat(tmp_path / "a.json") is None
    assert read_heartbeat(tmp_path / "missing.json") is None


def test_fields_of_later_versions_are_ignored(tmp_path: Path) -> None:
    write_heartbeat(tmp_path / "a.json", BEAT)
    content = orjson.loads((tmp_path / "a.json").read_bytes()) | {"mood": "good"}
    (tmp_path / "a.json").write_bytes(orjson.dumps(content))
    assert read_heartbeat(tmp_path / "a.json") == BEAT


def test_caught_up_needs_offsets_that_are_the_latest() -> None:
    assert not BEAT.caught_up
    from dataclasses import replace

    assert replace(BEAT, latest_offsets=BEAT.offsets).caught_up
    assert not replace(BEAT, offsets={}, latest_offsets={}).caught_up


def heartbeat(state: AppState = AppState.RUNNING, pid: int = 7, error: str | None = None) -> Heartbeat:
    return Heartbeat("pos", 1, pid, state, started_at_ms=0, updated_at_ms=100_000, error=error)


@pytest.mark.parametrize(
    ("beat", "now_ms", "problem"),
    [
        (heartbeat(), 100_000, None),
        (heartbeat(), 130_000, None),
        (heartbeat(), 130_001, "no heartbeat for 30 s"),
        (heartbeat(), 70_000, None),
        (heartbeat(), 69_999, "no heartbeat since the clock was set back"),
        (heartbeat(AppState.PAUSED), 69_999, "paused"),
        (heartbeat(AppState.STOPPED), 69_999, "stopped"),
        (heartbeat(pid=6), 100_000, "starting"),
        (heartbeat(AppState.STARTING), 100_000, "starting"),
        (heartbeat(AppState.FAILED, error="no topic"), 100_000, "failed: no topic"),
        (
            replace(heartbeat(AppState.FAILED, pid=6, error="no topic"), starts=4),
            100_000,
            "starting again (start 5) after it failed: no topic",
        ),
        (replace(heartbeat(AppState.FAILED, pid=6), starts=1), 100_000, "starting again (start 2) after it failed"),
        (None, 100_000, "no heartbeat yet"),
    ],
)
def test_an_app_is_healthy_only_by_its_own_fresh_heartbeat(
    beat: Heartbeat | None, now_ms: int, problem: str | None
) -> None:
    assert heartbeat_problem(beat, 7, now_ms) == problem
