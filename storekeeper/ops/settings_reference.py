"""Every setting of every role, collected from the settings classes: their names, and a page with a table of them."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from storekeeper.apps.settings import AppSettings, ClientSettings, ProjectSettings, SnapshotSettings
from storekeeper.configuration import PREFIX, RunDirSettings, Settings, read_file
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.settings import KafkaSettings
from storekeeper.node.settings import NodeSettings
from storekeeper.ops.settings import PlatformSettings
from storekeeper.quality.settings import QualitySettings

ROLES: tuple[tuple[str, str, type[Settings]], ...] = (
    ("Every program", "read by every program", RunDirSettings),
    ("Kafka", "read by the platform, apps, jobs and nodes", KafkaSettings),
    ("The platform", "read by `storekeeper up`, `down` and `status`", PlatformSettings),
    ("Stream apps and jobs", "read by `storekeeper run` and the jobs of stores", AppSettings),
    ("Your own apps", "read by every program that knows the apps", ProjectSettings),
    ("Query nodes", "read by `storekeeper node` and the commands that ask nodes", NodeSettings),
    ("Clients of nodes", "read by the commands and jobs that query nodes", ClientSettings),
    (
        "Maintenance of stores",
        "read by `storekeeper verify` and `snapshot optimize`",
        SnapshotSettings,
    ),
    ("The quality gate", "read by `storekeeper check` and `quarantine`", QualitySettings),
)
Value = str | int | float | bool | list[str] | dict[str, str] | None
"""A setting's value as a configuration file has it."""

_UNITS = {
    "_ms": "ms",
    "_s": "s",
    "_mb": "MiB",
    "_mib": "MiB",
    "_bytes": "bytes",
    "_minutes": "minutes",
    "_hours": "hours",
    "_days": "days",
    "_port": "port",
}
_INTRODUCTION = """\
# Settings

Settings are in one file, `storekeeper.toml`, in the current folder or the nearest one above. `STOREKEEPER_CONFIG` can
name another file. Variables of the environment override it: for `kafka_port`, `STOREKEEPER_KAFKA_PORT`. An example:

```toml
kafka_port = 19192
node_names = ["a", "b", "c"]
replicas = 2
apps = ["spark_apps.page_views:PAGE_VIEWS"]
project_dir = "."                            # relative paths begin at the folder of this file
tokens_file = "secrets/tokens"            # secrets are in files of their own, never in this one

[spark]                                   # Spark's properties: this is spark.driver.memory
driver.memory = "2g"
```

Every command refuses an unknown key. A file that belongs to another user, or that all users may write to, is used only
if `STOREKEEPER_CONFIG` names it. The folder of the file is the project folder: its `.run` is the run directory.

`storekeeper up` writes the values that aren't defaults, and those that it computes (`kafka_bootstrap`, `peers`,
`stores`), into `settings.toml` of the run directory. All processes of the platform read that file, and so does every
other command while the platform is up. `storekeeper plan` shows what another value would change, and
`storekeeper apply` does it while the platform runs. The last column says what it restarts. A *live* setting is read at
each task's next run; an *impossible* change does not fit the existing data.

`storekeeper settings --effective` shows each setting's value, its source, and where the running platform differs.
`storekeeper settings` prints this page.
"""
_PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting. `name` is its key in the configuration file, `default_value` the default as a file has it, empty if
    there is none. `change` is what a change needs: `live`, a restart of something, or why it is impossible.
    """

    name: str
    default: str
    default_value: Value
    unit: str
    change: str
    description: str

    @property
    def variable(self) -> str:
        """The environment variable."""
        return PREFIX + self.name.upper()


@cache
def names() -> frozenset[str]:
    """The names of all settings: the keys that a configuration file may have."""
    return frozenset(name for _, _, settings in ROLES for name in settings.model_fields)


def is_setting(variable: str) -> bool:
    """Whether an environment variable sets a setting."""
    name = variable.upper()
    return name.startswith(PREFIX) and name.removeprefix(PREFIX).lower() in names()


def check_names(path: Path) -> None:
    """Checks that each key of a configuration file is a setting.

    A class of settings passes over the keys of others, so a file is checked where all classes are known.

    Raises:
        ConfigurationError: one is not, or the file can't be read.
    """
    for key in read_file(path):
        if key not in names():
            near = difflib.get_close_matches(key, names(), n=1)
            advice = f"did you mean {near[0]}?" if near else "`storekeeper settings` lists the settings"
            raise ConfigurationError(f"{path}: there is no setting {key!r}: {advice}")


def settings_of(settings: type[Settings]) -> Iterator[Setting]:
    """The settings that a class adds to those of its parents, in the order of the class."""
    inherited = {
        name for parent in settings.__mro__[1:] if issubclass(parent, BaseSettings) for name in parent.model_fields
    }
    for name, field in settings.model_fields.items():
        if name not in inherited:
            extra = field.json_schema_extra if isinstance(field.json_schema_extra, dict) else {}
            yield Setting(
                name=name,
                default=_default(field),
                default_value=None if field.default is PydanticUndefined else plain(field.default),
                unit=str(extra.get("unit", _unit(name))),
                change=str(extra.get("change", settings.change)),
                description=field.description or "",
            )


def plain(value: object) -> Value:
    """A value as a configuration file has it."""
    if isinstance(value, tuple):
        return list(value)
    if isinstance(value, Mapping):
        return dict(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)


def shown(value: Value) -> str:
    """A value for people."""
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items())) or "none"
    text = ",".join(value) if isinstance(value, list) else str(value)
    return "none" if value is None or not text else text


def _unit(name: str) -> str:
    return next((unit for suffix, unit in _UNITS.items() if name.endswith(suffix)), "")


def settings_markdown() -> str:
    """The whole reference as a Markdown page."""
    parts = [_INTRODUCTION]
    for title, reader, settings in ROLES:
        rows = [
            f"| `{s.name}` | {_code(s.default)} | {s.unit} | {s.description} | {s.change} |"
            for s in settings_of(settings)
        ]
        table = "\n".join(["| setting | default | unit | meaning | change |", "|---|---|---|---|---|", *rows])
        parts.append(f"## {title}\n\nClass `{settings.__name__}`, {reader}.\n\n{table}\n")
    return "\n".join(parts)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined or field.default is None or field.default == {}:
        return ""
    value = field.default
    if isinstance(value, Path) and value.is_relative_to(_PROJECT):
        return f"<project>/{value.relative_to(_PROJECT)}"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
