"""Setting a damaged store aside: nothing is deleted, and the name is free again."""

from __future__ import annotations

from pathlib import Path

import pytest

from storekeeper.clock import ManualClock
from storekeeper.stores.rocksdb import open_rocksdb
from storekeeper.stores.set_aside import set_aside


def test_the_directory_moves_whole_under_a_name_with_the_time(tmp_path: Path) -> None:
    store = open_rocksdb(tmp_path / "rewards", "rewards")
    store.write([(b"a", b"1")])
    store.close()
    moved = set_aside(tmp_path / "rewards", clock=ManualClock(now_ms=1234))
    assert (moved, moved.is_dir()) == (tmp_path / "rewards.corrupt-1234", True)
    empty, whole = open_rocksdb(tmp_path / "rewards", "rewards"), open_rocksdb(moved, "rewards")
    assert (empty.get(b"a"), whole.get(b"a")) == (None, b"1")
    empty.close()
    whole.close()


def test_what_was_set_aside_in_the_same_millisecond_is_kept(tmp_path: Path) -> None:
    clock = ManualClock(now_ms=1234)
    for text in ("first", "second", "third"):
        (tmp_path / "rewards").mkdir()
        (tmp_path / "rewards" / "file").write_text(text)
        set_aside(str(tmp_path / "rewards"), clock=clock)
    assert {path.name: (path / "file").read_text() for path in tmp_path.iterdir()} == {
        "rewards.corrupt-1234": "first",
        "rewards.corrupt-1235": "second",
        "rewards.corrupt-1236": "third",
    }


def test_the_stamp_is_the_systems_time_where_no_clock_is_given(tmp_path: Path) -> None:
    (tmp_path / "rewards").mkdir()
    moved = set_aside(tmp_path / "rewards")
    assert int(moved.name.removeprefix("rewards.corrupt-")) > 1_700_000_000_000


def test_there_must_be_something(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        set_aside(tmp_path / "absent")
