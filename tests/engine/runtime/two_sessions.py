"""One Spark session after the other, in a process of its own: `python -m tests.engine.runtime.two_sessions FOLDER`.

Prints what the sessions saw.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spark_properties import DEFAULT_JAVA_OPTIONS, JAVA_OPTIONS
from storekeeper.engine.runtime.session import jvm_pid, start_session, stop_spark
from storekeeper.private_files import mend_modes
from tests.local_tables import local_table
from tests.readable import let_read_tables, open_to_others, some_group

NAMES = ("first", "second")
FILE_PROGRAMS = ("chmod", "readlink")
"""Which Hadoop starts for each file if it is not kept from it."""


def seen_by(session: SparkSession, name: str, settings: AppSettings) -> dict[str, Any]:
    """What a test wants to know of a session. It writes a table that bears its name."""
    rows = session.sql("SELECT id, id AS day FROM range(3)")
    rows.write.format("delta").partitionBy("day").save(str(local_table(settings, name)))
    return {
        "jvm": jvm_pid(session.sparkContext),
        "python": session.sparkContext.pythonExec,
        "rows": session.range(3).count(),
        "ui": session.sparkContext.uiWebUrl,
        "open": len(open_to_others(local_table(settings, ""))),
    }


def note_programs(folder: Path, notes: Path) -> None:
    """From here on, each start of one of the programs of files is noted in a file."""
    folder.mkdir()
    for name in FILE_PROGRAMS:
        wrapper = folder / name
        wrapper.write_text(f'#!/bin/sh\necho {name} "$@" >> {notes}\nexec {shutil.which(name)} "$@"\n')
        wrapper.chmod(0o755)
    os.environ["PATH"] = f"{folder}:{os.environ['PATH']}"  # noqa: TID251 - the JVM's


def main(folder: Path) -> None:
    """Runs the sessions; the tables may be read by a group from the second one on."""
    settings = AppSettings(run_dir=folder / "run")
    logged = f"{DEFAULT_JAVA_OPTIONS} -Xlog:class+load:file={folder / 'classes.log'}"
    events = folder / "events"
    events.mkdir()
    given = {JAVA_OPTIONS: logged, "spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri()}
    given["spark.eventLog.compress"] = "false"
    site = folder / "conf"
    site.mkdir()
    (site / "spark-defaults.conf").write_text("spark.ui.enabled true\nspark.ui.port 0\nspark.master yarn\n")
    note_programs(folder / "bin", folder / "programs")
    seen = {}
    os.environ["SPARK_CONF_DIR"] = str(site)  # noqa: TID251 - Spark's own
    for name in NAMES:
        session = start_session(name, settings.with_spark(given))
        try:
            seen[name] = seen_by(session, name, settings)
            if name == NAMES[0]:
                # The archive of classes is for the class path without such a folder.
                del os.environ["SPARK_CONF_DIR"]  # noqa: TID251
                let_read_tables(settings.run_dir, local_table(settings, ""), some_group().gr_gid)
                mend_modes(settings.run_dir)
        finally:
            stop_spark(session.sparkContext)
    print(json.dumps(seen))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
