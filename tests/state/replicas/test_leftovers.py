"""Directories of replicas that aren't held any more."""

from __future__ import annotations

from pathlib import Path

from state.clock import ManualClock
from state.replicas.leftovers import Leftovers
from state.replicas.states import ReplicaId


def test_what_nobody_held_for_long_enough_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    clock = ManualClock(1000)
    for name in ("0", "1", "2", "1.corrupt-17"):
        (tmp_path / "rewards" / name).mkdir(parents=True)
        (tmp_path / "rewards" / name / "CURRENT").write_text("x")
    leftovers = Leftovers(tmp_path, clock, keep_s=60)
    leftovers.sweep({ReplicaId("rewards", 0)})
    clock.advance(59_000)
    leftovers.sweep({ReplicaId("rewards", 0), ReplicaId("rewards", 2)})
    assert len(list((tmp_path / "rewards").iterdir())) == 4
    clock.advance(1000)
    leftovers.sweep({ReplicaId("rewards", 0)})
    # 2 was held in between, so its time began anew.
    assert sorted(path.name for path in (tmp_path / "rewards").iterdir()) == ["0", "1.corrupt-17", "2"]
