"""The run directory is found from any folder, and never guessed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.configuration import RunDirSettings
from storekeeper.errors import ConfigurationError
from storekeeper.node.settings import load_node_settings
from storekeeper.run_dir import CONFIGURATION, LOCK, find_run_dir, last_started, own_run_dir, remember_started
from tests.readable import open_to_others


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.delenv("STOREKEEPER_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    usual = os.umask(0o022)
    yield
    os.umask(usual)


def _run_dir(path: Path) -> Path:
    path.mkdir(parents=True)
    (path / LOCK).touch()
    return path


def _in_folder(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    monkeypatch.chdir(folder)


def test_it_is_that_of_the_nearest_folder_above(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _run_dir(tmp_path / ".run")
    nearest = _run_dir(tmp_path / "a" / ".run")
    remember_started(_run_dir(tmp_path / "elsewhere"))
    _in_folder(tmp_path / "a" / "b" / "c", monkeypatch)
    assert find_run_dir() == own_run_dir() == nearest
    assert (load_node_settings().run_dir, AppSettings().run_dir) == (nearest, nearest)
    _in_folder(nearest / "logs", monkeypatch)
    assert find_run_dir() == nearest


def test_else_it_is_that_of_the_platform_started_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    last = _run_dir(tmp_path / "platform" / "run")
    remember_started(_run_dir(tmp_path / "earlier"))
    remember_started(last)
    _in_folder(tmp_path / "elsewhere", monkeypatch)
    assert RunDirSettings.of_platform().run_dir == last
    assert own_run_dir() == tmp_path / "elsewhere" / ".run", "a new platform is made in the current folder"


def test_what_is_named_is_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _run_dir(tmp_path / ".run")
    _in_folder(tmp_path, monkeypatch)
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", "other")
    settings = RunDirSettings()
    assert settings.run_dir == tmp_path / "other"
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/other: correct STOREKEEPER_RUN_DIR"):
        RunDirSettings.of_platform()
    settings.make_run_dir()
    (tmp_path / "other" / "file").touch()
    assert open_to_others(RunDirSettings.of_platform().run_dir) == set()


def test_where_there_is_none_the_error_says_where_it_looked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    _in_folder(tmp_path / "empty", monkeypatch)
    for use in (RunDirSettings.of_platform, lambda: RunDirSettings().make_run_dir()):
        with pytest.raises(ConfigurationError, match=f"no platform in {tmp_path}/empty/.run .*STOREKEEPER_RUN_DIR"):
            use()
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_folder_that_only_has_the_name_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = _run_dir(tmp_path / ".run")
    _in_folder(tmp_path / "project" / ".run", monkeypatch)  # as some editors have one
    assert find_run_dir() == found


def test_a_folder_of_another_user_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    remember_started(_run_dir(tmp_path / ".run"))
    _in_folder(tmp_path / "below", monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert find_run_dir() == tmp_path / "below" / ".run"
    assert last_started() is None


def test_that_of_another_user_is_refused_beside_a_configuration_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _run_dir(tmp_path / ".run")
    (tmp_path / CONFIGURATION).touch()
    _in_folder(tmp_path / "below", monkeypatch)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(ConfigurationError, match=f"{tmp_path}/.run belongs to another user"):
        find_run_dir()


def test_a_folder_that_may_not_be_entered_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found = _run_dir(tmp_path / ".run")
    _in_folder(tmp_path / "closed" / "below", monkeypatch)
    stat = Path.stat

    def refusing(path: Path, **options: bool) -> os.stat_result:
        if path.parent == tmp_path / "closed":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refusing)
    assert find_run_dir() == found


def test_a_platform_that_is_gone_is_forgotten(tmp_path: Path) -> None:
    assert last_started() is None
    remember_started(tmp_path / "never-made")
    assert last_started() is None
