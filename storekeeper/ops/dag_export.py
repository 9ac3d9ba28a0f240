"""Our DAG files and the names for their forms, in a folder of an Airflow: the platform's own or another.

Beside the names, the JSON file has the version that wrote it, and the names of all files of the export.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

from storekeeper.apps.registry import APPS, DRIVERS, gated_tables, stores
from storekeeper.cleanup.cleanable import cleanable_stores
from storekeeper.errors import ConfigurationError
from storekeeper.generations.catalog import registered_migrations
from storekeeper.quality.verdict import WAIVABLE
from storekeeper.whole_files import write_whole
from storekeeper_provider import VERSION, dags
from storekeeper_provider.dag_parts.names import FILE, Names


def export_dags(folder: Path, history_minutes: int) -> list[Path]:
    """Writes the DAG files, and the file of names and of how often histories go on. Safe to repeat: what an earlier
    export has written is replaced. Makes the folder if need be. Other files in it stay as they are. Returns the files.

    Raises:
        ConfigurationError: a file of another origin has the name of one of ours. Nothing was written.
    """
    contents = {path.name: path.read_bytes() for path in _dag_files()}
    earlier = _exported(folder)
    for name in contents:
        if name not in earlier and (folder / name).exists():
            msg = f"{folder / name} is there and was not exported: move it away, or name another folder"
            raise ConfigurationError(msg)
    for name in earlier - contents.keys():
        (folder / name).unlink(missing_ok=True)
    # The names first: they say which of the files are ours, should this be interrupted.
    names = {"version": VERSION, "files": [*contents], **asdict(platform_names(history_minutes))}
    contents = {FILE: f"{json.dumps(names, indent=2)}\n".encode(), **contents}
    for name, content in contents.items():
        write_whole(folder / name, content)
    return [folder / name for name in contents]


def platform_names(history_minutes: int) -> Names:
    """The names of the registered apps, their stores, tables and migrations."""
    return Names(
        stores=tuple(stores()),
        cleanable_stores=cleanable_stores(),
        tables=tuple(gated_tables()),
        changeable_apps=tuple(app.name for app in APPS.values() if app.has_generations),
        migrations=tuple(registered_migrations()),
        programs={name: _title(name, apps) for name, apps in DRIVERS.items()},
        waivable=WAIVABLE,
        history_minutes=history_minutes,
    )


def _title(program: str, apps: tuple[str, ...]) -> str:
    return APPS[program].title if program in APPS else f"The driver of {', '.join(apps)}"


def _dag_files() -> list[Path]:
    (folder,) = map(Path, dags.__path__)
    return [path for path in sorted(folder.glob("*.py")) if path.stem != "__init__"]


def _exported(folder: Path) -> set[str]:
    """The names of the DAG files of an earlier export; none if there was none, or its file of names can't be read."""
    try:
        files = json.loads((folder / FILE).read_text("utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    # A file that others may have changed names nothing outside of its folder.
    return {name for name in files if isinstance(name, str) and Path(name).name == name}
