"""What a DAG file says whose file of names is missing, or is none of its version."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest

from storekeeper_provider import VERSION
from storekeeper_provider.dag_parts.names import FILE, Names, NamesFileError, names_beside

NAMES = Names(
    stores=("rewards",),
    cleanable_stores=("rewards",),
    tables=("export",),
    changeable_apps=("pos",),
    migrations=(),
    programs={"pos": "The tills"},
    waivable=("drift",),
    history_minutes=60,
)
WHOLE = {"version": VERSION, "files": [], **asdict(NAMES)}


def read(folder: Path, text: str) -> Names:
    (folder / FILE).write_text(text)
    return names_beside(str(folder / "check_tables.py"))


def test_it_reads_what_was_written(tmp_path: Path) -> None:
    assert read(tmp_path, json.dumps(WHOLE)) == NAMES


def test_a_missing_file_names_the_command_that_makes_it(tmp_path: Path) -> None:
    with pytest.raises(NamesFileError, match=rf"is missing: run `storekeeper export-dags {tmp_path}`"):
        names_beside(str(tmp_path / "check_tables.py"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '"text"', "{"])
def test_a_damaged_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(NamesFileError, match=r"can't be read .*: run `storekeeper export-dags"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    "change", [{"version": "0.0.9"}, {"stores": None}, {"waivable": "drift"}, {"history_minutes": "60"}]
)
def test_a_file_of_another_version_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    with pytest.raises(NamesFileError, match="install the platform's version of the provider"):
        read(tmp_path, json.dumps({**WHOLE, **change}))
