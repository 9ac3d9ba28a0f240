"""The size of an app, if it was set permanently: one file per app. It takes precedence over the environment.

Read when the app starts. Free of Spark.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError
from storekeeper.whole_files import write_whole


class AppScale(BaseModel):
    """The size of an app; None leaves a setting unchanged.

    With a local master (such as `local[2]`), `cores` and `memory_mb` are those of the driver. On a cluster, `cores` is
    that of all executors together, and `memory_mb` that of each.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    cores: int | None = Field(default=None, ge=1, le=1024)
    memory_mb: int | None = Field(default=None, ge=512, le=1024 * 1024)
    max_offsets_per_trigger: int | None = Field(default=None, ge=1, le=1_000_000_000)

    def applied(self, settings: AppSettings) -> AppSettings:
        """The settings with this size."""
        values: dict[str, Any] = {}
        properties: dict[str, str] = {}
        if self.cores is not None and settings.is_local:
            values["spark_master"] = f"local[{self.cores}]"
        elif self.cores is not None:
            properties["spark.cores.max"] = str(self.cores)
        if self.memory_mb is not None:
            properties[f"spark.{'driver' if settings.is_local else 'executor'}.memory"] = f"{self.memory_mb}m"
        if self.max_offsets_per_trigger is not None:
            values["max_offsets_per_trigger"] = self.max_offsets_per_trigger
        return settings.with_spark(properties).model_copy(update=values)


def scaled(settings: AppSettings, app: str) -> AppSettings:
    """The settings that an app starts with: the given ones, with the app's size.

    Raises:
        ConfigurationError: as `read_scale`.
    """
    return read_scale(settings.scale_file(app)).applied(settings)


def read_scale(path: Path) -> AppScale:
    """The size in a file; one that changes nothing if there is no file.

    Raises:
        ConfigurationError: the file can't be read, or holds no size.
    """
    try:
        return AppScale.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return AppScale()
    except (OSError, ValidationError) as error:
        msg = f"{path} holds no size of an app ({type(error).__name__}): remove it, then run `stream_apps` with `scale`"
        raise ConfigurationError(msg) from error


def write_scale(path: Path, scale: AppScale) -> None:
    """Replaces the file in one step; removes it if the size changes nothing. One writer at a time."""
    if scale == AppScale():
        path.unlink(missing_ok=True)
        return
    write_whole(path, scale.model_dump_json(exclude_none=True).encode())
