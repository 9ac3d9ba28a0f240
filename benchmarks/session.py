"""What the archive of Spark's classes saves: `make bench-session`.

A small job (a session, a Delta table written, read and counted) in a process of its own, with the archive that `make
setup` has made and without it, in turns.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.results import Measure, write_results
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.session import ARCHIVE, start_session, stop_spark

PEER = "without the archive"
_MEASURES = {
    "start_s": ("start of a session", "s"),
    "job_s": ("small job, from the start of its session to the end of its JVM", "s"),
    "processor_s": ("processor time of that job", "s"),
}


def small_job(jars_dir: Path, folder: Path) -> dict[str, float]:
    """Seconds until there was a session, and until all was over."""
    began_s = time.monotonic()
    spark = start_session("bench", AppSettings(jars_dir=jars_dir, run_dir=folder))
    start_s = time.monotonic() - began_s
    try:
        table = str(folder / "table")
        spark.range(1000).selectExpr("id % 7 AS key", "id AS value").write.format("delta").save(table)
        assert spark.read.format("delta").load(table).groupBy("key").count().count() == 7
    finally:
        stop_spark(spark.sparkContext)
    return {"start_s": start_s, "job_s": time.monotonic() - began_s}


def in_a_process(jars_dir: Path) -> dict[str, float]:
    """The figures of one job, and the processor time of its processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="bench-session-") as folder:
        command = [sys.executable, "-m", "benchmarks.session", "--job", str(jars_dir), folder]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "processor_s": spent}


def measure(runs: int) -> list[Measure]:
    """Each figure with the archive and without it."""
    jars = AppSettings().jars_dir
    if not (jars / ARCHIVE).exists():
        sys.exit(f"there is no {jars / ARCHIVE}: make setup")
    with tempfile.TemporaryDirectory() as folder:
        bare = Path(folder)
        (bare / "spark").symlink_to(jars / "spark")
        pairs = [(in_a_process(jars), in_a_process(bare)) for _ in range(runs + 1)][1:]  # the first reads files for all
    return [
        Measure(name, unit, [ours[key] for ours, _ in pairs], [theirs[key] for _, theirs in pairs], PEER, False)
        for key, (name, unit) in _MEASURES.items()
    ]


def main() -> None:
    """Runs the benchmark and writes its results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--job", nargs=2, type=Path, metavar=("JARS", "FOLDER"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.job:
        print(json.dumps(small_job(*arguments.job)))
        return
    print(write_results("session", measure(arguments.runs), {"runs": arguments.runs}))


if __name__ == "__main__":
    main()
