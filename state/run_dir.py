"""The run directory: the one folder of a platform, which every program finds the same way from any folder.

`STOREKEEPER_RUN_DIR` names it. Where that is not set, it is `.run` of the current folder or of the nearest
folder above; else that of the platform that `storekeeper up` started last for this user.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Self

import platformdirs
from pydantic import Field, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from state.errors import ConfigurationError
from state.private_files import private_folder
from state.whole_files import write_whole

LOCK = "platform.lock"
"""The file in a run directory that `storekeeper up`, `down` and `demo` hold. It distinguishes a run directory from
any other folder of the name."""

_FOLDER = ".run"


def find_run_dir() -> Path:
    """The default run directory; if nothing is found, `.run` of the current folder, not made yet."""
    return _above() or last_started() or Path.cwd() / _FOLDER


def own_run_dir() -> Path:
    """The run directory for a command that may make one: of the current folder or a folder above, else a new one."""
    return _above() or Path.cwd() / _FOLDER


def last_started() -> Path | None:
    """The run directory of the platform that `storekeeper up` started last, None if it is gone or there was none."""
    try:
        found = Path(_pointer().read_text("utf-8").strip())
    except (OSError, UnicodeDecodeError):
        return None
    return found if found.is_absolute() and _is_run_dir(found) else None


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


class RunDirSettings(BaseSettings):
    """The setting that every program has."""

    model_config = SettingsConfigDict(env_prefix="STOREKEEPER_", extra="ignore")

    run_dir: Path = Field(
        default_factory=find_run_dir,
        description="Folder of everything that runs or is written. Not set: `.run` of the current folder or of the "
        "nearest folder above; else that of the platform that `storekeeper up` started last.",
    )

    @field_validator("run_dir")
    @classmethod
    def _resolved(cls, path: Path) -> Path:
        return path.expanduser().resolve()

    @property
    def names_run_dir(self) -> bool:
        """Whether the run directory was named explicitly, so that it was not searched for."""
        return "run_dir" in self.model_fields_set

    @classmethod
    def of_platform(cls) -> Self:
        """The settings of a program that works on an existing run directory.

        Raises:
            ConfigurationError: there is no such directory.
        """
        settings = cls()
        if not settings.run_dir.is_dir():
            raise _no_run_dir(settings)
        return settings

    def make_run_dir(self) -> None:
        """Makes the run directory private, as `make_private` does; one that does not exist only if it was named.

        Raises:
            ConfigurationError: it was not named, and there is none; or it can't be made, or is another user's.
        """
        if not self.names_run_dir and not self.run_dir.is_dir():
            raise _no_run_dir(self)
        make_private(self.run_dir)


def _above() -> Path | None:
    here = Path.cwd()
    return next((path for folder in (here, *here.parents) if _is_run_dir(path := folder / _FOLDER)), None)


def _is_run_dir(path: Path) -> bool:
    """Whether a platform of this user is there. Another user's doesn't count: they could lead us to it."""
    try:
        return path.is_dir() and all(found.stat().st_uid == os.geteuid() for found in (path, path / LOCK))
    except OSError:
        return False


def _pointer() -> Path:
    return platformdirs.user_state_path("storekeeper") / "run-dir"


def _no_run_dir(settings: RunDirSettings) -> ConfigurationError:
    if settings.names_run_dir:
        return ConfigurationError(
            f"there is no run directory {settings.run_dir}: correct STOREKEEPER_RUN_DIR, or start a platform there "
            "with `storekeeper up`"
        )
    return ConfigurationError(
        f"there is no run directory: no platform in {settings.run_dir} or in a folder above, and none that you started "
        "elsewhere; set STOREKEEPER_RUN_DIR to one, or start a platform here with `storekeeper up`"
    )
