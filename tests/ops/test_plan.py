"""`storekeeper plan` as a pull request uses it: a file, no platform, an exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.cli.app import check_code
from storekeeper.cli.entry import app
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.code_digest import code_digest
from storekeeper.generations.changes.contract import Description, RunningStore
from storekeeper.generations.changes.plan import Plan, explain_plan
from storekeeper.generations.planning.declared import declared_stores

runner = CliRunner()


@pytest.fixture
def running() -> RunningStore:
    """`rewards` as it is declared."""
    declared = next(store for store in declared_stores() if store.store == "rewards")
    return RunningStore(
        declared.store, declared.app, declared.topic, declared.kind, fields=declared.fields, partitions=4, keys=800
    )


def _file(folder: Path, *stores: RunningStore) -> str:
    path = folder / "state.json"
    path.write_bytes(Description(0, {store.store: store for store in stores}).encode())
    return str(path)


def test_what_fits_passes_and_says_what_to_trigger(tmp_path: Path, running: RunningStore) -> None:
    done = runner.invoke(app, ["plan", "--against", _file(tmp_path, running)])
    assert done.exit_code == 0
    assert "**rewards** can be changed by a new generation" in done.stdout
    assert "800 keys" in done.stdout
    assert 'DAG `migrate_state` with `{"app":"pos","migrations":["rewards-tier","rewards-by-region"]}`' in done.stdout


def test_what_would_break_fails_and_stands_first(tmp_path: Path, running: RunningStore) -> None:
    gone = replace(running, store="bonus", topic="bonus-log", keys=5)
    dropped = replace(running, fields={**(running.fields or {}), "Bonus": "string"})
    done = runner.invoke(app, ["plan", "--output", "json", "--against", _file(tmp_path, dropped, gone)])
    assert done.exit_code == 4
    told = {change["store"]: change for change in json.loads(done.stdout)["changes"]}
    assert told["bonus"]["verdict"] == told["rewards"]["verdict"] == "breaks"
    assert "field Bonus removed" in told["rewards"]["details"][0]
    text = runner.invoke(app, ["plan", "--against", _file(tmp_path, dropped, gone)])
    assert text.stdout.startswith("**bonus** WOULD BREAK")


def test_partitions_and_files_are_checked(tmp_path: Path, running: RunningStore) -> None:
    file = _file(tmp_path, running)
    done = runner.invoke(app, ["plan", "--output", "json", "--against", file, "--partitions", "rewards=12"])
    told = {change["store"]: change for change in json.loads(done.stdout)["changes"]}
    assert told["rewards"]["conf"]["partitions"] == 12
    for wrong in (["--partitions", "rewards"], ["--partitions", "rewards=0"], ["--against", str(tmp_path / "none")]):
        assert runner.invoke(app, ["plan", "--against", file, *wrong]).exit_code != 0


def test_what_runs_here_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("STOREKEEPER_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    done = runner.invoke(app, ["plan", "--export", str(tmp_path / "state.json")])
    assert done.exit_code == 0
    assert Description.decode((tmp_path / "state.json").read_bytes()).stores == {}


def _started_with(run_dir: Path, code: str | None) -> None:
    """Leaves the claim of an app that has started with that code."""
    folder = Path(str(AppSettings.load(run_dir=run_dir).checkpoint_dir("pos")))
    folder.mkdir(parents=True, exist_ok=True)
    CheckpointOwner("pos", 1, code=code).write(folder)


def test_changed_code_is_told_with_what_follows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setenv("STOREKEEPER_KAFKA_BOOTSTRAP", "127.0.0.1:1")
    told = "the code of pos has changed since its last start: new rows will follow it"
    for code, changed in ((code_digest(POS), []), ("another", ["pos"])):
        _started_with(tmp_path, code)
        plan = runner.invoke(app, ["plan", "--output", "json"]).stdout.splitlines()[-1]  # behind its log
        assert json.loads(plan)["changed_code"] == changed
    assert told in runner.invoke(app, ["plan"]).stderr


def test_an_upgrade_says_that_the_code_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    monkeypatch.setattr("storekeeper.generations.planning.upgrade_check.check_upgrade", lambda *_: {})
    for code, said in ((code_digest(POS), False), ("another", True)):
        _started_with(tmp_path, code)
        check_code("pos")
        assert ("compute all rows again: docs/how-to/backfill.md" in capsys.readouterr().err) is said


def test_a_plan_of_nothing_says_so() -> None:
    assert explain_plan(Plan(())) == "Nothing to compare: no app declares a store, and none runs."
