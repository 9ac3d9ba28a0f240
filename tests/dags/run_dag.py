"""Runs DAGs by `dag.test()`, each in a process of its own: `python -m tests.dags.run_dag`, with orders on its input.

Each line there is a JSON object: `file`, `conf`, `environment`, and `output`, the file that everything is written to
that the run says; its last line is the outcome as JSON. With `wrong`, a list of confs, in place of `conf`, its last
line has those that Airflow didn't refuse. Answered by a line with the exit code. Importing Airflow takes longer than
most runs: this process does it once, and each run is a fork of it, before anything is opened.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

from airflow import settings
from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.sdk.exceptions import ParamValidationError
from airflow.sdk.execution_time.supervisor import in_process_api_server
from airflow.utils.session import create_session
from sqlalchemy import func
from sqlalchemy.orm import configure_mappers


def dag_of(file: Path) -> Any:
    """The DAG of a file."""
    bag = DagBag(file)
    assert not bag.import_errors, bag.import_errors
    dag = bag.dags[file.stem]
    dag.deadline = None  # `dag.test()` looks for deadlines in the database, where it doesn't put them
    return dag


def try_wrong(file: Path, confs: list[dict[str, Any]]) -> None:
    """Tries to run the DAG with each conf, and prints those whose params Airflow didn't refuse."""
    dag, taken = dag_of(file), []
    for conf in confs:
        try:
            dag.test(run_conf=conf)
        except ParamValidationError:
            continue
        taken.append(conf)
    sys.stdout.write(f"\n{json.dumps(taken)}\n")


def main(file: Path, conf: dict[str, Any]) -> None:
    """Runs the DAG and prints the outcome."""
    dag, dag_id = dag_of(file), file.stem
    with create_session() as session:
        before = session.query(func.max(DagRun.id)).scalar() or 0
    run = dag.test(run_conf=conf)
    with create_session() as session:
        found = session.query(XComModel).filter_by(dag_id=dag_id, run_id=run.run_id, key="return_value")
        results = {row.task_id: XComModel.deserialize_value(row) for row in found}
        others = session.query(DagRun).filter(DagRun.id > before, DagRun.dag_id != dag_id)
        triggered = {row.dag_id: row.conf for row in others}
    outcome = {
        "triggered": triggered,
        "state": str(run.state),
        "tasks": {task.task_id: str(task.state) for task in run.get_task_instances()},
        "results": results,
    }
    sys.stdout.write(f"\n{json.dumps(outcome)}\n")


def serve() -> None:
    """Carries out the orders until standard input ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # whatever Airflow has to say is not an answer
    _prepare()
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _run(order)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _prepare() -> None:
    """Does what every run would do first: import operators, map tables, make the API that tasks ask. It takes long."""
    configure_mappers()
    DagBag()
    in_process_api_server().app._cadwyn_initialize()
    # The database is opened by whoever needs it, for a connection can't be shared with a fork.
    settings.dispose_orm(do_log=False)


def _run(order: dict[str, Any]) -> None:
    code = 1
    try:
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.environ.clear()  # noqa: TID251 (as if it had been started with these)
        os.environ.update(order["environment"])  # noqa: TID251
        settings.configure_vars()
        settings.configure_orm()
        file = Path(order["file"])
        if "wrong" in order:
            try_wrong(file, order["wrong"])
        else:
            main(file, order["conf"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    serve()
