"""The settings that name your own apps. Apart from what loads the apps, for programs that only know the settings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from storekeeper.configuration import Settings


class OwnAppsSettings(Settings):
    """Where your own apps are."""

    change = "restart of the platform"

    own_apps: Annotated[tuple[str, ...], NoDecode] = Field(
        default=(), description="Your own apps: `<module>:<variable>` of each spec."
    )
    own_apps_dir: Path | None = Field(default=None, description="Folder of their packages, unless they are installed.")

    @field_validator("own_apps", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("own_apps_dir")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().resolve()
