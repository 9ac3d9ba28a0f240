"""The commands of the gate, for a store and for a table of somebody's own app."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import orjson
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from typer.testing import CliRunner, Result

from harness import project
from storekeeper.apps.registry import store_named
from storekeeper.cli.entry import app
from storekeeper.program import ExitCode
from tests.snapshot_tables import rows_of, write_snapshot

APP = """
from storekeeper.apps.checked_table import CheckedColumn, CheckedTable
from storekeeper.apps.spec import AppSpec

columns = (CheckedColumn("id", "string"), CheckedColumn("amount", "bigint", least=1))
WEB_ORDERS = CheckedTable("web_orders", columns, unique=("UNIQUE",))
SHOP = AppSpec("shop", "Orders", lambda _: (), lambda _: (), tables=(WEB_ORDERS,))
"""


@pytest.fixture
def run_dir(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir(mode=0o700)
    return folder


def called(run_dir: Path, *arguments: str) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, arguments, env={"STOREKEEPER_RUN_DIR": str(run_dir)}, catch_exceptions=False)


def storekeeper(run_dir: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command as a process, which loads the app that `own_app` wrote."""
    shop = project.environment(apps="shop.app:SHOP", shared_apps="", project_dir=str(run_dir.parent))
    own = {"STOREKEEPER_RUN_DIR": str(run_dir), **shop}
    return subprocess.run(
        [sys.executable, "-m", "storekeeper.cli.entry", *arguments],
        env={**os.environ, **own},  # noqa: TID251 (handed on)
        capture_output=True,
        text=True,
        check=False,
    )


def answer(done: subprocess.CompletedProcess[str] | Result) -> dict[str, Any]:
    # In this process, nobody keeps what is logged out of standard output.
    said = done.stdout if isinstance(done, subprocess.CompletedProcess) else done.stdout.splitlines()[-1]
    found: dict[str, Any] = orjson.loads(said)
    return found


def own_app(run_dir: Path, unique: str) -> None:
    package = run_dir.parent / "shop"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "app.py").write_text(APP.replace("UNIQUE", unique))


@pytest.mark.usefixtures("called_here")
def test_a_table_without_checks_is_refused_with_those_that_have_some(run_dir: Path) -> None:
    done = called(run_dir, "check", "bills")
    assert done.exit_code == ExitCode.USAGE
    assert "there are no checks of a table 'bills': choose one of hadoop_export, rewards" in done.stderr


@pytest.mark.usefixtures("called_here")
def test_a_dry_run_shows_what_waits_and_decides_nothing(run_dir: Path) -> None:
    dry = ("check", "hadoop_export", "--dry-run", "--output", "json")
    assert answer(called(run_dir, *dry)) == {"table": "hadoop_export", "waiting": None}
    staged = run_dir / "delta" / "hadoop_export_staged"
    write_deltalake(staged, pa.table({"id": ["a"]}), configuration={"delta.enableChangeDataFeed": "true"})
    for _ in range(2):
        found = answer(called(run_dir, *dry))["waiting"]
        assert (found["first_version"], found["last_version"], found["rows"]) == (0, 0, 1)
    of_store = called(run_dir, "check", "prices", "--dry-run")
    assert of_store.exit_code == ExitCode.USAGE
    assert "no app stages rows for 'prices': choose one of hadoop_export" in of_store.stderr


def test_a_mistake_in_an_own_app_is_refused_by_name(run_dir: Path) -> None:
    own_app(run_dir, "number")
    done = storekeeper(run_dir, "check", "web_orders")
    assert (done.returncode, done.stdout) == (ExitCode.CONFIGURATION, "")
    assert "the declaration of table web_orders is wrong: unique names column number" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("called_here")
def test_a_store_is_checked_and_sql_stays_at_its_last_good_version(run_dir: Path) -> None:
    def count() -> Result:
        return called(run_dir, "sql", "SELECT count(*) FROM prices", "--at", "prices=good", "--output", "csv")

    assert answer(called(run_dir, "check", "prices", "-o", "json"))["status"] == "nothing_to_check"
    fields = store_named("prices").value_fields
    rows = rows_of({b"ACME": b'{"Symbol":"ACME","Price":1.5}', b"EMCA": b'{"Symbol":"EMCA","Price":2}'})
    write_snapshot(run_dir / "delta" / "prices", rows, fields, store="prices", app="ticks")
    assert "no version of table prices is good yet" in count().stderr
    assert called(run_dir, "check", "prices").exit_code == 0
    bad = [*rows[:1], rows[1]._replace(value=b'{"Symbol":"EMCA"}')]
    write_snapshot(run_dir / "delta" / "prices", bad[1:], fields, store="prices", app="ticks", delta_version=1)
    red = called(run_dir, "check", "prices", "--output", "json")
    assert (red.exit_code, answer(red)["reasons"]) == (ExitCode.FINDING, ["Price is always there. Failing rows: 1."])
    assert count().stdout.splitlines()[1:] == ["2"]
    decision = ("--by", "meera", "--reason", "no trade yet", "--accept", "presence")
    released = called(run_dir, "quarantine", "release", "prices", "1-1", *decision, "--output", "json")
    assert answer(released)["published"] is False
    assert count().stdout.splitlines()[1:] == ["1"]


@pytest.mark.spark
@pytest.mark.long("test_own_table.py gates a table in this process, the tests above run the commands")
def test_a_table_of_an_own_app_is_quarantined(run_dir: Path) -> None:
    own_app(run_dir, "id")
    write_deltalake(
        run_dir / "delta" / "web_orders_staged",
        pa.table({"id": ["a", "b"], "amount": pa.array([1, 0], pa.int64())}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    done = storekeeper(run_dir, "check", "web_orders", "--output", "json")
    assert done.returncode == ExitCode.FINDING, done.stderr
    assert answer(done)["reasons"] == ["amount is at least 1. Failing rows: 1."]
    assert answer(done)["published"] is False
    held = answer(storekeeper(run_dir, "quarantine", "show", "--output", "json"))
    assert (held["table"], held["batch"]) == ("web_orders", "0-0")
    decision = ("--by", "meera", "--reason", "a mistake")
    assert storekeeper(run_dir, "quarantine", "discard", "web_orders", "0-0", *decision).returncode == 0
    assert storekeeper(run_dir, "check", "web_orders").returncode == 0, "somebody has decided"
