"""Files that are replaced in one step."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from storekeeper.whole_files import write_whole


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_is_made_with_its_folder_and_replaced(tmp_path: Path, *, durable: bool) -> None:
    path = tmp_path / "new" / "file.json"
    for data in (b"first, and long", b"second"):
        write_whole(path, data, durable=durable)
        assert path.read_bytes() == data
    assert list(path.parent.iterdir()) == [path]


def test_a_durable_file_is_on_disk_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, synced = tmp_path / "file", list[tuple[bool, bool]]()
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append((stat.S_ISDIR(os.fstat(fd).st_mode), path.exists())))
    write_whole(path, b"kept", durable=True)
    assert synced == [(False, False), (True, True)]


def test_a_write_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "file"
    write_whole(path, b"old")

    def full(_descriptor: int) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        write_whole(path, b"new", durable=True)
    assert (path.read_bytes(), list(tmp_path.iterdir())) == (b"old", [path])
    monkeypatch.undo()
    write_whole(path, b"new", durable=True)
    assert list(tmp_path.iterdir()) == [path]


_DYING = """
import os, signal, sys
from pathlib import Path
from storekeeper.whole_files import write_whole

os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
write_whole(Path(sys.argv[1]), b"half", durable=True)
"""


def test_the_drafts_of_killed_writers_are_removed_and_no_others(tmp_path: Path) -> None:
    """Only old ones: a process of another machine or container that writes now isn't seen here."""
    killed = [subprocess.Popen([sys.executable, "-c", _DYING, str(tmp_path / "file")]) for _ in range(2)]
    assert [process.wait() for process in killed] == [-signal.SIGKILL] * 2
    old, young = (tmp_path / f".file.{process.pid}.new" for process in killed)
    living, other = tmp_path / f".file.{os.getppid()}.new", tmp_path / f"notes.{killed[0].pid}.new"
    for path in (old, living, other):
        path.touch()
        os.utime(path, (0, 0))
    write_whole(tmp_path / "another", b"")
    assert set(tmp_path.iterdir()) == {young, living, other, tmp_path / "another"}


def test_a_private_file_is_its_owners_whatever_was_there(tmp_path: Path) -> None:
    path = tmp_path / "secrets" / "token"
    before = os.umask(0o022)
    try:
        write_whole(path, b"secret", private=True)
        assert (mode(path), mode(path.parent)) == (0o600, 0o700)
        path.chmod(0o644)
        write_whole(path, b"secret", private=True)
        assert mode(path) == 0o600
        write_whole(tmp_path / "public", b"")
        assert mode(tmp_path / "public") == 0o644
    finally:
        os.umask(before)


def test_a_link_in_the_place_of_the_draft_is_not_followed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    (tmp_path / f".file.{os.getpid()}.new").symlink_to(victim)
    write_whole(tmp_path / "file", b"written", private=True)
    assert (victim.read_text(), (tmp_path / "file").is_symlink()) == ("kept", False)
