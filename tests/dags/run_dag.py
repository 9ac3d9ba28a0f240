"""Runs a DAG once by `dag.test()`: `python -m tests.dags.run_dag ID CONF`. The last line is the outcome as JSON.

A process of its own, because Airflow reads its environment when it is imported and an interpreter has one Airflow home.
"""

from __future__ import annotations

import json
import sys

from airflow.dag_processing.dagbag import DagBag
from airflow.models.dagrun import DagRun
from airflow.models.xcom import XComModel
from airflow.utils.session import create_session
from sqlalchemy import func


def main(dag_id: str, conf: str) -> None:
    """Runs the DAG and prints the outcome."""
    bag = DagBag()
    assert not bag.import_errors, bag.import_errors
    dag = bag.dags[dag_id]
    dag.deadline = None  # `dag.test()` looks for deadlines in the database, where it doesn't put them
    with create_session() as session:
        before = session.query(func.max(DagRun.id)).scalar() or 0
    run = dag.test(run_conf=json.loads(conf))
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


if __name__ == "__main__":
    main(*sys.argv[1:])
