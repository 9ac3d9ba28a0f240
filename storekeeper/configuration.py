"""Settings: from the environment, then from the one configuration file, then their defaults.

The keys of the file are the fields of all settings classes: `kafka_port` is the variable `STOREKEEPER_KAFKA_PORT`. The
file is, in this order: the one that `STOREKEEPER_CONFIG` names (none, if that is set and empty); the settings that the
platform in the run directory was started with; `storekeeper.toml` of the project that the run directory belongs to;
that of the project folder. A run directory that is named decides, wherever it is named.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar, Self

from pydantic import Field, ValidationError, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, InitSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict

from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.locations import Location, location
from storekeeper.names import checked_name
from storekeeper.run_dir import CONFIGURATION, STARTED_WITH, find_project, find_run_dir, is_of_project, make_private

PREFIX = "STOREKEEPER_"


class _Named(BaseSettings):
    """The variables that say where the file is."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore")

    config: str | None = None
    run_dir: Path | None = None


def own_file() -> Path | None:
    """The user's configuration file: the named one, else that of the project folder. None if there is none.

    Raises:
        ConfigurationError: the named file is not there, or the found one is another user's.
    """
    named = _Named().config
    if named is not None:
        return _named_file(named) if named else None
    project = find_project()
    return None if project is None else _file_in(project)


def platform_file() -> Path | None:
    """The configuration file of the platform that is meant: the user's, else that of the project of its run directory.

    Raises:
        ConfigurationError: as `own_file` and `find_run_dir` do.
    """
    own, named = own_file(), _Named()
    if own is not None or named.config is not None:
        return own
    chosen = (named.run_dir or find_run_dir()).expanduser()
    return _file_in(chosen.parent) if is_of_project(chosen) else None


def _file_in(project: Path) -> Path | None:
    path = project / CONFIGURATION
    if not path.is_file():
        return None
    status = path.stat()
    if status.st_uid not in {os.geteuid(), 0} or status.st_mode & 0o002:
        raise ConfigurationError(
            f"{path} belongs to another user, or all users may write to it: if you trust it, name it in {PREFIX}CONFIG"
        )
    return path


def configuration_file(run_dir: Path | None = None) -> Path | None:
    """The file to take settings from. None if there is none.

    Args:
        run_dir: the run directory, if the program names one.

    Raises:
        ConfigurationError: the run directory may not be entered; or see `own_file`, `read_file` and `find_run_dir`.
    """
    own, named = own_file(), _Named()
    if named.config is not None:
        return own
    chosen = (run_dir or named.run_dir or _run_dir_in(own) or find_run_dir()).expanduser()
    started_with = chosen / STARTED_WITH
    try:
        if started_with.is_file():
            return started_with
        return (_file_in(chosen.parent) if is_of_project(chosen) else None) or own
    except OSError as error:
        msg = f"{started_with} can't be read ({error.strerror}): correct {PREFIX}RUN_DIR, or run as the platform's user"
        raise ConfigurationError(msg) from error


def read_file(path: Path) -> dict[str, Any]:
    """The settings in a file.

    Raises:
        ConfigurationError: it can't be read, or is not TOML.
    """
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} can't be read as TOML: {error}") from error


class Settings(BaseSettings):
    """Settings of a role. Each field is a key of the configuration file, and the variable `STOREKEEPER_<FIELD>`.

    The metadata of a field (`json_schema_extra`) may have `unit`, where its name has none, and `change`: what a change
    needs, where that is not the class's `change`. `LIVE` means that a task takes it at its next run.
    """

    model_config = SettingsConfigDict(env_prefix=PREFIX, extra="ignore", frozen=True)

    change: ClassVar[str]

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Arguments, then the environment, then the file."""
        del dotenv_settings, file_secret_settings
        named = init_settings.init_kwargs.get("run_dir") if isinstance(init_settings, InitSettingsSource) else None
        path = configuration_file(None if named is None else Path(str(named)))
        values = {} if path is None else _values(settings_cls, path)
        if "run_dir" in settings_cls.model_fields and (run_dir := _run_dir_in(own_file())) is not None:
            values.setdefault("run_dir", run_dir)  # the settings of a started platform don't say where it is
        return init_settings, env_settings, InitSettingsSource(settings_cls, values)


def counted(default: int, unit: str, description: str, *, least: int = 1, most: int | None = None) -> Any:
    """A setting that is a count whose unit is not part of its name; `unit` is plural."""
    return Field(default, ge=least, le=most, description=description, json_schema_extra={"unit": unit})


LIVE = "live"
IMPOSSIBLE = "impossible"
"""The beginning of a `change`: the value is in the data already."""
NEXT_START = "next start"
"""The beginning of a `change` that a running platform can't take over."""
APPLY = "`storekeeper apply`"
"""A `change` of what the platform consists of: no other process is restarted by it."""


class RunDirSettings(Settings):
    """The settings that every program has."""

    change = "restart of all processes"

    run_dir: Path = Field(
        default_factory=find_run_dir,
        description="Folder of everything that runs or is written. Not set: `.run` of the project folder; else that of "
        "the platform that `storekeeper up` started last.",
        json_schema_extra={"change": f"{IMPOSSIBLE}: another folder is another platform"},
    )

    durable_uri: str | None = Field(
        default=None,
        description="Folder of what must outlive the machine: Delta tables, checkpoints, journals of generations and "
        "archives of clean-ups. An absolute path, or a URI of HDFS or S3. By default the run directory.",
        json_schema_extra={"change": "restart of all processes, after the files were copied"},
    )
    tables_uri: str | None = Field(
        default=None,
        description="Folder of the Delta tables alone, such as one that others may read. By default `delta` in "
        "`durable_uri`.",
        json_schema_extra={"change": "restart of all processes, after the tables were copied"},
    )

    @field_validator("durable_uri", "tables_uri")
    @classmethod
    def _located(cls, text: str | None) -> str | None:
        try:
            return None if text is None else str(location(text))
        except ConfigurationError as error:
            raise ValueError(str(error)) from error

    @field_validator("run_dir")
    @classmethod
    def _resolved(cls, path: Path) -> Path:
        return path.expanduser().resolve()

    @classmethod
    def load(cls, **overrides: object) -> Self:
        """The settings of the environment, with `overrides` instead of some.

        Raises:
            pydantic.ValidationError: a variable can't be used.
        """
        return cls(**overrides)  # type: ignore[arg-type]

    @property
    def durable(self) -> Location:
        """The folder of what must outlive the machine."""
        return self.run_dir if self.durable_uri is None else location(self.durable_uri)

    @property
    def tables(self) -> Location:
        """The folder of the Delta tables."""
        return self.durable / "delta" if self.tables_uri is None else location(self.tables_uri)

    @property
    def seals(self) -> Location:
        """The folder of the seals of Delta tables."""
        return self.durable / "seals"

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


def explained(error: ValidationError) -> str:
    """A sentence for each setting that can't be used, which names it as the user wrote it, and where."""
    return " ".join(
        f"{_as_written(problem['loc'])} can't be used ({problem['msg'].removeprefix('Value error, ')}): correct it."
        for problem in error.errors()
    )


def _as_written(place: Sequence[int | str]) -> str:
    """The variable of the environment, or the key and its file."""
    if not place:
        return "The settings together"
    name = str(place[0])
    if f"{PREFIX}{name}".upper() in map(str.upper, os.environ):  # noqa: TID251 (whether it is there, not its value)
        return f"The variable {PREFIX}{name.upper()}"
    try:
        file = configuration_file()
        found = file is not None and name in read_file(file)
    except ConfigurationError:
        found = False
    return f"`{name}` in {file}" if found else f"The setting `{name}`"


def _named_file(named: str) -> Path:
    path = Path(named).expanduser().resolve()
    if not path.is_file():
        raise ConfigurationError(f"there is no configuration file {path}: correct {PREFIX}CONFIG")
    return path


def _run_dir_in(path: Path | None) -> Path | None:
    """The run directory that a configuration file names; None if it names none."""
    values = {} if path is None else read_file(path)
    return path.parent / _path(values["run_dir"]) if path is not None and "run_dir" in values else None


def _values(settings: type[BaseSettings], path: Path) -> dict[str, Any]:
    """The values of a file for the fields of a class. Relative paths begin at the file's folder."""
    fields = settings.model_fields
    return {name: _value(fields[name], value, path) for name, value in read_file(path).items() if name in fields}


def _value(field: FieldInfo, value: object, path: Path) -> object:
    if isinstance(value, str) and "Path" in str(field.annotation):
        return path.parent / _path(value)
    if isinstance(value, list) and field.annotation is str:
        return ",".join(map(str, value))
    return value


def _path(text: object) -> Path:
    return Path(str(text)).expanduser()


def valid_name(text: str) -> str:
    """Returns a setting that is a name.

    Raises:
        ValueError: it can't be a name.
    """
    try:
        return checked_name(text)
    except InvalidNameError as error:
        raise ValueError(str(error)) from error


def parse_pairs(text: str) -> dict[str, str]:
    """Reads `a=1,b=2`. Raises ValueError if a part has no `=` or a name comes twice."""
    pairs: dict[str, str] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, separator, value = part.partition("=")
        if not separator or not value.strip():
            raise ValueError(f"{part!r} is not of the form name=value")
        if name.strip() in pairs:
            raise ValueError(f"{name.strip()!r} is there twice")
        pairs[valid_name(name.strip())] = value.strip()
    return pairs
