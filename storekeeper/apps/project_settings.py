"""The settings of a project: its apps, and where they are. Free of the apps, which read settings of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field, field_validator
from pydantic_settings import NoDecode

from storekeeper.configuration import Settings

_Specs = Annotated[tuple[str, ...], NoDecode]


class ProjectSettings(Settings):
    """The apps of a project, and where they are."""

    change = "restart of the platform"

    apps: _Specs = Field(
        default=(), description="The apps with a driver of their own: `<module>:<variable>` of each spec."
    )
    shared_apps: _Specs = Field(
        default=(), description="The apps that share one driver, `shared_driver`: `<module>:<variable>` of each spec."
    )
    project_dir: Path | None = Field(
        default=None,
        description="Folder of their packages, unless they are installed. Airflow runs the DAG files of its `dags` "
        "beside ours.",
    )

    @field_validator("apps", "shared_apps", mode="before")
    @classmethod
    def _split(cls, value: object) -> object:
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @field_validator("project_dir")
    @classmethod
    def _absolute(cls, path: Path | None) -> Path | None:
        return None if path is None else path.expanduser().resolve()

    @property
    def own_dags(self) -> Path | None:
        """The folder of the project's DAG files; None if there is none."""
        folder = None if self.project_dir is None else self.project_dir / "dags"
        return folder if folder is not None and folder.is_dir() else None
