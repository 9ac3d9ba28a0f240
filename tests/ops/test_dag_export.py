"""The DAG files in a folder of an Airflow."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from harness.project import ROOT
from storekeeper.cli.entry import app
from storekeeper.engine.runtime.scale import AppScale
from storekeeper.errors import ConfigurationError
from storekeeper.ops.dag_export import export_dags, platform_names
from storekeeper_provider.dag_parts.names import FILE, names_beside

OURS = {
    path.name: path.read_text()
    for path in (ROOT / "storekeeper_provider" / "dags").glob("*.py")
    if path.stem != "__init__"
}


def test_it_writes_every_dag_file_and_names_that_they_can_read(tmp_path: Path) -> None:
    written = export_dags(tmp_path / "new", 10)
    assert {path.name for path in written} == {*OURS, FILE} == {path.name for path in (tmp_path / "new").iterdir()}
    assert {name: (tmp_path / "new" / name).read_text() for name in OURS} == OURS
    names = names_beside(str(tmp_path / "new" / "check_tables.py"))
    assert names == platform_names(10)
    assert {"rewards", "prices"} < set(names.cleanable_stores) < set(names.stores)
    assert names.tables == ("hadoop_export",)
    assert "hadoop_export" not in names.changeable_apps
    assert {"pos", "hadoop_export", "shared_driver"} <= names.programs.keys()
    assert "rewards-tier" in names.migrations


def test_a_second_export_replaces_the_first_and_leaves_other_files_alone(tmp_path: Path) -> None:
    export_dags(tmp_path, 60)
    (tmp_path / "theirs.py").write_text("theirs")
    (tmp_path / "check_tables.py").write_text("old")
    (tmp_path / "retired.py").write_text("of an earlier version")
    names = json.loads((tmp_path / FILE).read_text())
    (tmp_path / FILE).write_text(json.dumps({**names, "files": [*names["files"], "retired.py", "../theirs.py", 1]}))
    (tmp_path.parent / "theirs.py").write_text("theirs")
    export_dags(tmp_path, 60)
    assert (tmp_path / "check_tables.py").read_text() == OURS["check_tables.py"]
    assert not (tmp_path / "retired.py").exists()
    assert (tmp_path / "theirs.py").read_text() == (tmp_path.parent / "theirs.py").read_text() == "theirs"


def test_a_file_of_others_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "check_tables.py").write_text("theirs")
    with pytest.raises(ConfigurationError, match=r"check_tables\.py is there and was not exported"):
        export_dags(tmp_path, 60)
    assert [path.name for path in tmp_path.iterdir()] == ["check_tables.py"]


def test_the_command_prints_the_files(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["export-dags", str(tmp_path / "dags")])
    assert done.stdout.splitlines()[0] == str(tmp_path / "dags" / FILE)
    assert len(done.stdout.splitlines()) == len(OURS) + 1


def test_the_form_has_every_size_of_an_app() -> None:
    assert f"_SIZES = {tuple(AppScale.model_fields)}".replace("'", '"') in OURS["stream_apps.py"]
