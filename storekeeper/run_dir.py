"""Where a platform is: its project folder, which every program finds the same way from any folder.

It is the current folder, or the nearest folder above, that has a configuration file or a run directory. Its `.run` is
the run directory, its `storekeeper.toml` the configuration file. If there is none, the run directory is that of the
platform that `storekeeper up` started last for this user. `STOREKEEPER_RUN_DIR` and `STOREKEEPER_CONFIG` name others.
"""

from __future__ import annotations

import os
from pathlib import Path

import platformdirs

from storekeeper.errors import ConfigurationError
from storekeeper.private_files import private_folder
from storekeeper.whole_files import write_whole

LOCK = "platform.lock"
"""The file in a run directory that `storekeeper up` and `down` hold. It distinguishes a run directory from
any other folder of the name."""

CONFIGURATION = "storekeeper.toml"
"""The configuration file of a project folder."""

STARTED_WITH = "settings.toml"
"""The file in a run directory with the settings that its platform was started with. `storekeeper up` writes it."""

_FOLDER = ".run"


def find_project() -> Path | None:
    """The nearest folder, from the current one upwards, that has a configuration file or a run directory."""
    here = Path.cwd()
    return next((folder for folder in (here, *here.parents) if _is_project(folder)), None)


def is_of_project(run_dir: Path) -> bool:
    """Whether a run directory is the usual one of the folder that it is in."""
    return run_dir.name == _FOLDER


def find_run_dir() -> Path:
    """The default run directory; if nothing is found, `.run` of the current folder, not made yet.

    Raises:
        ConfigurationError: the folder with the configuration file has a `.run` of another user.
    """
    project = find_project()
    if project is None:
        return last_started() or Path.cwd() / _FOLDER
    folder = project / _FOLDER
    if folder.exists() and folder.stat().st_uid != os.geteuid():
        raise ConfigurationError(f"{folder} belongs to another user: if you trust it, name it in STOREKEEPER_RUN_DIR")
    return folder


def own_run_dir() -> Path:
    """The run directory for a command that may make one: of the current folder or a folder above, else a new one."""
    return (find_project() or Path.cwd()) / _FOLDER


def last_started() -> Path | None:
    """The run directory of the platform that `storekeeper up` started last, None if it is gone or there was none."""
    try:
        folder = Path(_pointer().read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return None
    return folder if folder.is_absolute() and _is_run_dir(folder) else None


def remember_started(run_dir: Path) -> None:
    """Makes `run_dir` the one that `last_started` returns.

    Raises:
        OSError: the user has no folder for it that can be written.
    """
    write_whole(_pointer(), f"{run_dir}\n".encode(), private=True)


def make_private(run_dir: Path) -> None:
    """Makes a private run directory, or makes an existing one private. All later files of this process are private too.

    Raises:
        ConfigurationError: it can't be made, or is another user's.
    """
    os.umask(0o077)
    private_folder(run_dir)


def _is_project(folder: Path) -> bool:
    """Whether a folder has a configuration file or a run directory. One that this user may not enter has neither."""
    try:
        return (folder / CONFIGURATION).is_file() or _is_run_dir(folder / _FOLDER)
    except OSError:
        return False


def _is_run_dir(path: Path) -> bool:
    """Whether a platform of this user is there. Another user's doesn't count: they could lead us to it."""
    try:
        return path.is_dir() and all(part.stat().st_uid == os.geteuid() for part in (path, path / LOCK))
    except OSError:
        return False


def _pointer() -> Path:
    return platformdirs.user_state_path("storekeeper") / "run-dir"
