"""The names of a platform's apps, stores and tables, for the forms of DAGs: a JSON file beside the DAG files.

`storekeeper export-dags` writes both, and `storekeeper up` does for the platform's own Airflow. So a DAG file is parsed
without the platform and without the package `storekeeper`. Free of Airflow: the platform's side may have none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from storekeeper_provider import VERSION

FILE = "storekeeper_names.json"


class NamesFileError(Exception):
    """The file is missing, can't be read, or is of another version. Airflow shows it in its list of import errors."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names of a platform. The JSON file has the same fields, and `version` and `files` beside them.

    Attributes:
        stores: the stores that there are snapshots of.
        cleanable_stores: those that grow without bounds.
        tables: the tables that the quality gate publishes.
        changeable_apps: the apps that can have generations.
        migrations: the registered migrations.
        programs: the processes of apps, and their titles.
        waivable: the rules that a released batch may break.
        history_minutes: how often histories go on.
    """

    stores: tuple[str, ...]
    cleanable_stores: tuple[str, ...]
    tables: tuple[str, ...]
    changeable_apps: tuple[str, ...]
    migrations: tuple[str, ...]
    programs: Mapping[str, str]
    waivable: tuple[str, ...]
    history_minutes: int


def names_beside(dag_file: str) -> Names:
    """The names in the JSON file beside a DAG file.

    Raises:
        NamesFileError: there is no such file, it can't be read, or another version has written it.
    """
    path = Path(dag_file).with_name(FILE)
    remedy = f"run `storekeeper export-dags {path.parent}` on the platform, and copy the folder to here"
    try:
        names = json.loads(path.read_text("utf-8"))
        version = names["version"]
    except FileNotFoundError:
        raise NamesFileError(f"{path} is missing: {remedy}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NamesFileError(f"{path} can't be read ({type(error).__name__}): {remedy}") from error
    if version != VERSION or not _is_whole(names):
        raise NamesFileError(
            f"{path} was written by version {version} of Storekeeper, and the provider that is installed here has "
            f"version {VERSION}: install the platform's version of the provider, then {remedy}"
        )
    values: dict[str, Any] = {one.name: _value(names[one.name]) for one in fields(Names)}
    return Names(**values)


def _is_whole(names: Mapping[str, Any]) -> bool:
    return all(isinstance(names.get(one.name), int if one.type == "int" else list | dict) for one in fields(Names))


def _value(value: list[str] | dict[str, str] | int) -> tuple[str, ...] | dict[str, str] | int:
    return tuple(value) if isinstance(value, list) else value
