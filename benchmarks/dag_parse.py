"""What Airflow pays to parse each DAG file: `python -m benchmarks.dag_parse`.

As its DAG processor does, one process imports Airflow and forks a child for each file, so that each file pays for what
it imports itself. Measured is the child's processor time; the peer is the smallest of Airflow's own examples, parsed in
the same round.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.results import Measure, write_results

RUNS = 7
LIMIT_MS = 500
PEER = "example_simplest_dag.py"


def in_child(work: Callable[[], object]) -> float:
    """Milliseconds of processor time that `work` takes in a forked process.

    Raises:
        RuntimeError: it failed there.
    """
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover (a process of its own)
        try:
            began = time.process_time_ns()
            work()
            os.write(writes, str(time.process_time_ns() - began).encode())
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writes)
    with os.fdopen(reads) as answer:
        spent_ns = answer.read()
    os.waitpid(child, 0)
    if not spent_ns:
        raise RuntimeError("the child failed: see above")
    return int(spent_ns) / 1_000_000


def parse(file: Path) -> None:
    """Parses one DAG file as the DAG processor does.

    Raises:
        RuntimeError: it has no DAG.
    """
    from airflow.dag_processing.dagbag import DagBag  # noqa: PLC0415 (Airflow reads its home when it is imported)

    bag = DagBag(dag_folder=str(file), load_op_links=False)
    if bag.import_errors or not bag.dags:
        msg = f"{file.name} has no DAG: {bag.import_errors}"
        raise RuntimeError(msg)


def export(folder: Path) -> None:
    """Writes the DAG files as users get them. In a process of its own: the children must pay for what they import."""
    command = [sys.executable, "-m", "storekeeper.cli.entry", "export-dags", str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def measure(folder: Path, runs: int, *, warm_ups: int = 1) -> list[Measure]:
    """One measure for each DAG file of a folder. The first rounds, as many as `warm_ups`, don't count."""
    import airflow.example_dags  # noqa: PLC0415
    import airflow.sdk  # noqa: PLC0415
    from airflow.dag_processing import dagbag, processor  # noqa: F401, PLC0415 (what the parent of all children has)

    peer = Path(airflow.example_dags.__path__[0]) / PEER
    files = sorted(folder.glob("*.py"))
    ours: dict[str, list[float]] = {file.stem: [] for file in files}
    theirs: dict[str, list[float]] = {file.stem: [] for file in files}
    for run in range(warm_ups + runs):
        for file in files:
            spent = in_child(partial(parse, file)), in_child(partial(parse, peer))
            if run >= warm_ups:
                ours[file.stem].append(spent[0])
                theirs[file.stem].append(spent[1])
    return [
        Measure(f"parse {name}", "ms of processor", ours[name], theirs[name], PEER, higher_is_better=False)
        for name in ours
    ]


def main(arguments: list[str]) -> int:
    """Measures; `--smoke` once and without a file of results. Exit code 1: a DAG takes longer than it may."""
    smoke = arguments == ["--smoke"]
    with tempfile.TemporaryDirectory(prefix="airflow-") as home:
        os.environ["AIRFLOW_HOME"] = home  # noqa: TID251 (written for Airflow, not read)
        folder = Path(home) / "dags"
        export(folder)
        measures = measure(folder, 1, warm_ups=0) if smoke else measure(folder, RUNS)
    if not smoke:
        write_results("dag_parse", measures, {"files": len(measures), "limit_ms": LIMIT_MS})
    slow = [found for found in measures if sorted(found.ours)[len(found.ours) // 2] > LIMIT_MS]
    for found in measures:
        print(f"{found.name:32} {sorted(found.ours)[len(found.ours) // 2]:8.1f} ms")
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
