"""The value of each setting and its source; the file with those that a platform was started with."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from storekeeper.configuration import configuration_file, read_file
from storekeeper.kafka.settings import KafkaSettings
from storekeeper.ops.environment import derived_settings, inherited_environment
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.settings_reference import ROLES, Setting, Value, plain, settings_of, shown
from storekeeper.whole_files import write_whole

_DEFAULT = "default"
_PLATFORM = "platform"
_HEADER = "# The settings of this platform. `storekeeper up` writes them, and `storekeeper down` removes them.\n"


@dataclass(frozen=True, slots=True)
class Effective:
    """A setting's value, and its source: `default`, `environment`, `command`, `platform`, or a file and line."""

    setting: Setting
    value: Value
    source: str


def effective(settings: PlatformSettings) -> dict[str, Effective]:
    """All settings by name, as a platform with `settings` would have them.

    Raises:
        pydantic.ValidationError, ConfigurationError: one can't be used.
    """
    named = {name.upper() for name in inherited_environment()}
    sources = _sources()
    values: dict[str, Effective] = {}
    for _, _, role in ROLES:
        loaded = settings if role in {KafkaSettings, PlatformSettings} else role()
        for setting in settings_of(role):
            if setting.name not in loaded.model_fields_set:
                source = _DEFAULT
            elif setting.variable in named:
                source = "environment"
            else:
                source = sources.get(setting.name, "command")
            values.setdefault(setting.name, Effective(setting, plain(getattr(loaded, setting.name)), source))
    values["run_dir"] = Effective(values["run_dir"].setting, str(settings.run_dir), values["run_dir"].source)
    for name, value in derived_settings(settings).items():
        values[name] = Effective(values[name].setting, value, _PLATFORM)
    return values


def write_started_with(layout: RunLayout, values: Mapping[str, Effective]) -> None:
    """Writes the values that aren't defaults, each with its source, where the platform's processes read them.

    Values that were set, or follow from the platform's settings, are written even if they are defaults: the default of
    `peers` is not the same for nodes as for jobs and operators, which without it ask no node.
    """
    lines = [
        f"{name} = {_toml(one.value)}  # {one.source}\n"
        for name, one in sorted(values.items())
        if (one.source != _DEFAULT or one.value != one.setting.default_value)
        and one.value is not None
        and name != "run_dir"
    ]
    write_whole(layout.started_with, "".join([_HEADER, *lines]).encode(), private=True)


def _toml(value: Value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in sorted(value.items())) + "}"
    return json.dumps(value, ensure_ascii=False)


def _sources() -> dict[str, str]:
    """File and line of each key of the configuration file."""
    path = configuration_file()
    if path is None:
        return {}
    lines = list(enumerate(path.read_text("utf-8").splitlines(), start=1))
    return {key: _place(path, key, lines) for key in read_file(path)}


def _place(path: Path, key: str, lines: list[tuple[int, str]]) -> str:
    pattern = re.compile(rf"\s*(\[{key}\]|[\"']?{key}[\"']?\s*=)")
    return next((f"{path}:{number}" for number, line in lines if pattern.match(line)), str(path))


def effective_lines(settings: PlatformSettings) -> Iterator[str]:
    """A table: name, value, source, and the value of the running platform where it differs."""
    path, values = RunLayout(settings.run_dir).started_with, effective(settings)
    running = read_file(path) if path.is_file() else None

    def other(name: str, one: Effective) -> str:
        if running is None or name == "run_dir":
            return ""
        old = running.get(name, one.setting.default_value)
        return "" if old == one.value else f"running with {shown(old)}"

    rows = [(name, shown(one.value), one.source, other(name, one)) for name, one in values.items()]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        yield "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
