"""A process may have one Spark session after another."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from deploy.table_readers import mend_modes
from spark_apps.runtime.session import ARCHIVE, jvm_pid, start_session, stop_session
from spark_apps.settings import AppSettings
from tests.readable import open_to_others, reached_by, some_group

pytestmark = pytest.mark.spark


def test_a_session_after_a_stopped_one_has_a_jvm_of_its_own(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path)
    tables = settings.delta_table("")
    jvms = []
    for name in ("first", "second"):
        session = start_session(name, settings)
        try:
            jvms.append(jvm_pid(session))
            assert session.sparkContext.pythonExec == sys.executable
            assert session.range(3).count() == 3
            rows = session.sql("SELECT id, id AS day FROM range(3)")
            rows.write.format("delta").partitionBy("day").save(str(settings.delta_table(name)))
        finally:
            stop_session(session)
        if name == "first":
            assert open_to_others(tables) == set(), "Hadoop, which sets modes by itself, knows of no umask"
            mend_modes(tmp_path, tables, some_group().gr_name)
    assert reached_by(tmp_path, some_group().gr_gid) == {tables, *tables.rglob("*")}
    assert (tables / "second" / "day=2").is_dir()
    assert None not in jvms
    assert len(set(jvms)) == 2


def test_a_batch_starts_no_process_for_the_files_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = tmp_path / "started"
    for name in ("chmod", "readlink"):
        wrapper = tmp_path / "bin" / name
        wrapper.parent.mkdir(exist_ok=True)
        wrapper.write_text(f'#!/bin/sh\necho {name} "$@" >> {started}\nexec {shutil.which(name)} "$@"\n')
        wrapper.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"), prepend=os.pathsep)
    (tmp_path / "input").mkdir()
    (tmp_path / "input" / "rows.json").write_text('{"n":1}\n{"n":2}\n')
    session = start_session("files", AppSettings(run_dir=tmp_path / "run"))
    try:
        counted = session.readStream.schema("n int").json(str(tmp_path / "input")).groupBy("n").count()
        options = {"checkpointLocation": str(tmp_path / "checkpoint")}
        query = counted.writeStream.format("noop").outputMode("update").options(**options)
        query.trigger(availableNow=True).start().awaitTermination()
    finally:
        stop_session(session)
    assert list((tmp_path / "checkpoint" / "state").rglob("1.changelog"))
    told = started.read_text().splitlines() if started.exists() else []
    assert [line for line in told if str(tmp_path / "checkpoint") in line] == []


def test_classes_come_from_the_archive(tmp_path: Path) -> None:
    settings = AppSettings(run_dir=tmp_path / "run")
    archive = settings.jars_dir / ARCHIVE
    if not (archive.exists() and archive.stat().st_size):
        pytest.skip("this JDK made no archive of classes in `make setup`")
    log = tmp_path / "classes.log"
    options = f"{settings.driver_java_options} -Xlog:class+load:file={log}"
    stop_session(start_session("archived", settings.model_copy(update={"driver_java_options": options})))
    (loaded,) = [line for line in log.read_text().splitlines() if " org.apache.spark.SparkContext source:" in line]
    assert loaded.endswith("shared objects file (top)")


@pytest.mark.long("test_session.py starts a session with the archive that is there")
def test_a_session_starts_without_a_word_beside_an_archive_that_is_damaged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    jars = AppSettings().jars_dir
    (tmp_path / "jars").mkdir()
    (tmp_path / "jars" / "spark").symlink_to(jars / "spark")
    (tmp_path / "jars" / ARCHIVE).write_bytes(b"no archive" * 1000)
    session = start_session("damaged", AppSettings(run_dir=tmp_path / "run", jars_dir=tmp_path / "jars"))
    try:
        assert session.range(3).count() == 3
    finally:
        stop_session(session)
    assert capfd.readouterr().out == ""
