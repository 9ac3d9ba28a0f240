"""Every setting of every role in one table, made from the settings classes themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined
from pydantic_settings import BaseSettings

from dags.operators.settings import OperationsSettings
from deploy.settings import PlatformSettings
from quality.settings import QualitySettings
from spark_apps.client_settings import ClientSettings
from spark_apps.maintenance.settings import MaintenanceSettings
from spark_apps.settings import AppSettings
from spark_apps.user_apps import OwnAppsSettings
from state.run_dir import RunDirSettings
from state.settings import NodeSettings

ROLES: tuple[tuple[str, str, type[BaseSettings]], ...] = (
    ("Every program", "read by all", RunDirSettings),
    ("The platform", "read by `storekeeper up`, `down`, `status` and `demo`", PlatformSettings),
    ("Stream apps and jobs", "read by `python -m spark_apps`", AppSettings),
    ("Your own apps", "read by all that knows the apps", OwnAppsSettings),
    ("Query nodes", "read by `python -m state.node` and the commands that ask nodes", NodeSettings),
    ("What asks nodes", "read by maintenance and by Airflow's operators", ClientSettings),
    ("Airflow's operators", "read when a task runs", OperationsSettings),
    ("Maintenance of stores", "read by `python -m spark_apps.maintenance`", MaintenanceSettings),
    ("The quality gate", "read by `python -m quality`", QualitySettings),
)
_INTRODUCTION = """\
# Settings

Every setting is an environment variable. `storekeeper settings` prints this page. The platform hands its environment on
to the processes that it starts, so a variable set at `make up` reaches all of them. A platform that runs keeps what it
was started with: `up` refuses other values and names the variables, until `storekeeper down`.
"""
_PROJECT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Setting:
    """One environment variable: its name, its default as text (empty: none) and what it is for."""

    variable: str
    default: str
    description: str


def settings_of(settings: type[BaseSettings]) -> Iterator[Setting]:
    """The settings that a class adds to those of its parents, in the order of the class."""
    inherited = {
        name for parent in settings.__mro__[1:] if issubclass(parent, BaseSettings) for name in parent.model_fields
    }
    prefix = settings.model_config.get("env_prefix", "")
    for name, field in settings.model_fields.items():
        if name not in inherited:
            yield Setting((prefix + name).upper(), _default(field), field.description or "")


def settings_markdown() -> str:
    """The whole reference as a Markdown page."""
    parts = [_INTRODUCTION]
    for title, reader, settings in ROLES:
        rows = [f"| `{s.variable}` | {_code(s.default)} | {s.description} |" for s in settings_of(settings)]
        table = "\n".join(["| variable | default | meaning |", "|---|---|---|", *rows])
        parts.append(f"## {title}\n\nClass `{settings.__name__}`, {reader}.\n\n{table}\n")
    return "\n".join(parts)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined or field.default is None:
        return ""
    value = field.default
    if isinstance(value, Path) and value.is_relative_to(_PROJECT):
        return f"<project>/{value.relative_to(_PROJECT)}"
    return ",".join(value) if isinstance(value, tuple) else str(value)


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
