"""A process may have one Spark session after another."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.session import ARCHIVE
from tests.engine.runtime import two_sessions
from tests.readable import reached_by, some_group

pytestmark = pytest.mark.spark


@dataclass(frozen=True, slots=True)
class Sessions:
    """What two sessions left in a folder, and what each saw."""

    folder: Path
    seen: dict[str, dict[str, Any]]
    log: str
    """Their standard error."""


@pytest.fixture(scope="module")
def sessions(tmp_path_factory: pytest.TempPathFactory) -> Sessions:
    folder = tmp_path_factory.mktemp("sessions")
    command = [sys.executable, "-m", two_sessions.__name__, str(folder)]
    ended = subprocess.run(command, check=True, capture_output=True, text=True)
    return Sessions(folder, json.loads(ended.stdout), ended.stderr)


def test_a_session_after_a_stopped_one_has_a_jvm_of_its_own(sessions: Sessions) -> None:
    first, second = sessions.seen.values()
    assert first["jvm"] != second["jvm"]
    assert None not in (first["jvm"], second["jvm"])
    assert [seen["python"] for seen in (first, second)] == [sys.executable] * 2
    assert [seen["rows"] for seen in (first, second)] == [3, 3]


def test_properties_come_from_the_table_and_from_sparks_own_folder(sessions: Sessions) -> None:
    """The table asks for the log of events, the folder for the UI; and the master of the folder is not taken."""
    logs = [file.read_text() for file in (sessions.folder / "events").rglob("*") if file.is_file()]
    assert sum("SparkListenerApplicationEnd" in log for log in logs) == len(two_sessions.NAMES)
    assert sessions.seen["first"]["ui"].startswith("http://127.0.0.1:")
    assert sessions.seen["second"]["ui"] is None


def test_tables_are_open_to_their_group_alone_and_to_nobody_before_there_is_one(sessions: Sessions) -> None:
    """Hadoop, which sets modes by itself, knows of no umask."""
    tables = sessions.folder / "run" / "delta"
    assert sessions.seen["first"]["open"] == 0
    assert (tables / "second" / "day=2").is_dir()
    assert reached_by(sessions.folder / "run", some_group().gr_gid) == {tables, *tables.rglob("*")}


def test_a_session_starts_no_process_for_the_rows_that_it_writes(sessions: Sessions) -> None:
    rows, programs = sessions.folder / "run" / "delta" / "first" / "day=", sessions.folder / "programs"
    assert list(rows.parent.glob("day=2/*.parquet"))
    told = programs.read_text().splitlines() if programs.exists() else []
    assert [line for line in told if str(rows) in line] == []


def test_spark_does_not_announce_its_log_levels(sessions: Sessions) -> None:
    assert "log4j" not in sessions.log
    assert "log level" not in sessions.log


def test_classes_come_from_the_archive(sessions: Sessions) -> None:
    archive = AppSettings().jars_dir / ARCHIVE
    if not (archive.exists() and archive.stat().st_size):
        pytest.skip("this JDK made no archive of classes in `make setup`")
    log = (sessions.folder / "classes.log").read_text()
    (loaded,) = [line for line in log.splitlines() if " org.apache.spark.SparkContext source:" in line]
    assert loaded.endswith("shared objects file (top)")


@pytest.mark.long("test_session.py starts a session with the archive that is there")
def test_a_session_starts_without_a_word_beside_an_archive_that_is_damaged(tmp_path: Path) -> None:
    jars = AppSettings().jars_dir
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark").symlink_to(jars / "spark")
    (tmp_path / "jars" / ARCHIVE).write_bytes(b"no archive" * 1000)
    program = (
        "import pathlib, sys; from storekeeper.engine.runtime.session import *;"
        "from storekeeper.apps.settings import AppSettings;"
        "folder = pathlib.Path(sys.argv[1]); jars = folder / 'jars';"
        "session = start_session('damaged', AppSettings(run_dir=folder / 'run', jars_dir=jars));"
        "assert session.range(3).count() == 3; stop_spark(session.sparkContext)"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    assert subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout == ""
