from __future__ import annotations

import errno
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from spark_apps.generations.commands import remove_folder


def failing(times: int, error: Callable[[], OSError]) -> Callable[[Path], None]:
    """`shutil.rmtree` that fails so many times first."""
    real, left = shutil.rmtree, [times]

    def tried(path: Path) -> None:
        if left[0]:
            left[0] -= 1
            raise error()
        real(path)

    return tried


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "state" / "0").mkdir(parents=True)
    return tmp_path / "state"


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOTEMPTY, "Directory not empty"), FileNotFoundError(errno.ENOENT, "gone")], ids=str
)
def test_a_folder_that_is_still_written_to_is_removed_once_that_ends(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError
) -> None:
    monkeypatch.setattr(shutil, "rmtree", failing(2, lambda: error))
    waits: list[float] = []
    remove_folder(folder, wait=waits.append)
    assert not folder.exists()
    assert len(waits) == 2


def test_a_folder_that_is_gone_is_not_waited_for(folder: Path) -> None:
    waits: list[float] = []
    shutil.rmtree(folder)
    remove_folder(folder, wait=waits.append)
    assert waits == []


@pytest.mark.parametrize(("error", "waited"), [(PermissionError(errno.EACCES, "denied"), 0), (OSError(39, "more"), 50)])
def test_a_folder_that_cannot_be_removed_says_why(
    folder: Path, monkeypatch: pytest.MonkeyPatch, error: OSError, waited: int
) -> None:
    monkeypatch.setattr(shutil, "rmtree", failing(1000, lambda: error))
    waits: list[float] = []
    with pytest.raises(type(error), match=str(error.strerror)):
        remove_folder(folder, wait=waits.append)
    assert len(waits) == waited
