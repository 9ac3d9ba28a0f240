"""A command without the optional packages finds none of their programs, and all others."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.bare_path import OPTIONAL, bare_path, main

HIDDEN = sorted(set().union(*OPTIONAL.values()))


def install(folder: Path, *names: str) -> Path:
    """Programs that do nothing."""
    folder.mkdir()
    for name in names:
        (folder / name).write_text("#!/bin/sh\nexit 7\n")
        (folder / name).chmod(0o755)
    return folder


def test_programs_of_optional_packages_are_hidden_and_no_others(tmp_path: Path) -> None:
    mixed, other = install(tmp_path / "mixed", *HIDDEN, "git"), install(tmp_path / "other", "java")
    (tmp_path / "links").mkdir()
    bare = bare_path(os.pathsep.join([str(mixed), str(other), str(tmp_path / "none")]), tmp_path / "links")
    assert [name for name in [*HIDDEN, "git", "java"] if shutil.which(name, path=bare)] == ["git", "java"]
    assert str(other) in bare.split(os.pathsep), "a place without such programs stays as it is"


def test_the_command_runs_there_and_its_exit_code_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(install(tmp_path / "mixed", "psql", "other")))
    assert main(["/bin/sh", "-c", "command -v psql && exit 1; other"]) == 7
