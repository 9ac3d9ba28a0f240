from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from spark_apps.generations.commands import remove_folder


def test_a_folder_that_is_still_written_to_is_removed_once_that_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, real, left = tmp_path / "state", shutil.rmtree, [2]
    folder.mkdir()

    def disturbed(path: Path) -> None:
        if left[0]:
            left[0] -= 1
            raise OSError(39, "Directory not empty")
        real(path)

    monkeypatch.setattr(shutil, "rmtree", disturbed)
    remove_folder(folder, wait=lambda _: None)
    assert not folder.exists()


def test_a_folder_that_cannot_be_removed_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(_: Path) -> None:
        raise PermissionError(13, "denied")

    monkeypatch.setattr(shutil, "rmtree", denied)
    with pytest.raises(PermissionError):
        remove_folder(tmp_path, wait=lambda _: None)
