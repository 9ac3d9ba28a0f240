"""The value of each setting and its source; and the file with those that a platform was started with."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from deploy.environment import derived_settings, inherited_environment
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from deploy.settings_reference import ROLES, Setting, Value, plain, settings_of
from state.configuration import configuration_file, read_file
from state.kafka.settings import KafkaSettings
from state.whole_files import write_whole

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
    places = _places()
    found: dict[str, Effective] = {}
    for _, _, role in ROLES:
        loaded = settings if role in {KafkaSettings, PlatformSettings} else role()
        for setting in settings_of(role):
            if setting.name not in loaded.model_fields_set:
                source = _DEFAULT
            elif setting.variable in named:
                source = "environment"
            else:
                source = places.get(setting.name, "command")
            found.setdefault(setting.name, Effective(setting, plain(getattr(loaded, setting.name)), source))
    found["run_dir"] = Effective(found["run_dir"].setting, str(settings.run_dir), found["run_dir"].source)
    for name, value in derived_settings(settings).items():
        found[name] = Effective(found[name].setting, value, _PLATFORM)
    return found


def write_started_with(layout: RunLayout, found: Mapping[str, Effective]) -> None:
    """Writes the values that aren't defaults, each with its source, where the platform's processes read them.

    Values that were set, or follow from the platform's settings, are written even if they are defaults: the default of
    `peers` is not the same for nodes as for jobs and operators, which without it ask no node.
    """
    lines = [
        f"{name} = {_toml(one.value)}  # {one.source}\n"
        for name, one in sorted(found.items())
        if (one.source != _DEFAULT or one.value != one.setting.default_value)
        and one.value is not None
        and name != "run_dir"
    ]
    write_whole(layout.started_with, "".join([_HEADER, *lines]).encode(), private=True)


def shown(value: Value) -> str:
    """A value for people."""
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items())) or "none"
    text = ",".join(value) if isinstance(value, list) else str(value)
    return "none" if value is None or not text else text


def _toml(value: Value) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_toml(key)} = {_toml(item)}" for key, item in sorted(value.items())) + "}"
    return json.dumps(value, ensure_ascii=False)


def _places() -> dict[str, str]:
    """File and line of each key of the configuration file."""
    path = configuration_file()
    if path is None:
        return {}
    lines = list(enumerate(path.read_text("utf-8").splitlines(), start=1))
    return {key: _place(path, key, lines) for key in read_file(path)}


def _place(path: Path, key: str, lines: list[tuple[int, str]]) -> str:
    pattern = re.compile(rf"\s*(\[{key}\]|[\"']?{key}[\"']?\s*=)")
    return next((f"{path}:{number}" for number, line in lines if pattern.match(line)), str(path))
