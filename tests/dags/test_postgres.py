"""Airflow on PostgreSQL, as in containers; everywhere else in the tests it is on SQLite."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2  # type: ignore[import-untyped]
import pytest

from harness.ports import free_ports
from harness.project_apps import TILL_APPS
from harness.waiting import eventually
from tests.dags.conftest import RunDag
from tests.ops.control.supervised import Supervised, environment

pytestmark = pytest.mark.airflow

_START_S = 60
# Debian has `psql` on the PATH, and the programs of the server beside the one that this stands for.
_BINARIES = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb")) if shutil.which("psql") else []
INITDB = _BINARIES[-1] if _BINARIES else None


@contextmanager
def postgres() -> Iterator[str]:
    """A server of its own, as SQLAlchemy and psycopg know its address. It refuses to run as root."""
    assert INITDB is not None
    user = "postgres" if os.geteuid() == 0 else None
    password, port = secrets.token_urlsafe(12), free_ports(1)[0]
    with tempfile.TemporaryDirectory(prefix="postgres-") as made:
        folder = Path(made)
        (folder / "password").write_text(password)
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(folder / "password", user)
        initdb = [
            str(INITDB),
            "-D",
            f"{folder}/data",
            "-U",
            "airflow",
            "-A",
            "scram-sha-256",
            f"--pwfile={folder}/password",
        ]
        subprocess.run(initdb, user=user, cwd=folder, check=True, capture_output=True, timeout=_START_S)
        server = [str(INITDB.with_name("postgres")), "-D", f"{folder}/data", "-k", str(folder), "-p", str(port)]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                [*server, "-c", "listen_addresses=127.0.0.1", "-c", "fsync=off"],
                user=user, cwd=folder, stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip
        address = f"airflow:{password}@127.0.0.1:{port}/postgres"

        def answers() -> bool:
            assert process.poll() is None, (folder / "log").read_text()
            try:
                psycopg2.connect(f"postgresql://{address}").close()
            except psycopg2.OperationalError:
                return False
            return True

        try:
            eventually(answers, _START_S, "PostgreSQL answers")
            yield address
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(_START_S)


def _can_run() -> bool:
    if INITDB is None:
        return False
    return os.geteuid() != 0 or any(entry.pw_name == "postgres" for entry in pwd.getpwall())


@pytest.mark.skipif(not _can_run(), reason="needs the programs of a PostgreSQL server, and a user to run them as")
@pytest.mark.long("test_stream_apps.py has the same DAG, on SQLite")
def test_airflow_works_on_postgresql(run_dag: RunDag, supervised: Supervised, airflow_home: dict[str, str]) -> None:
    with postgres() as address:
        database = {"AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": f"postgresql+psycopg2://{address}"}
        subprocess.run(
            [sys.executable, "-m", "airflow", "db", "migrate"],
            env=environment(supervised.run_dir, **airflow_home, **database),
            check=True,
            timeout=300,
            capture_output=True,
        )
        run = run_dag("stream_apps", **database)
        done = {task for task, state in run.tasks.items() if state == "success"}
        assert done == {"choose", *TILL_APPS, "shared_driver"}, run.log
        connection = psycopg2.connect(f"postgresql://{address}")
        try:
            with connection.cursor() as cursor:
                cursor.execute("SELECT dag_id, state FROM dag_run")
                assert cursor.fetchall() == [("stream_apps", "success")]
        finally:
            connection.close()
