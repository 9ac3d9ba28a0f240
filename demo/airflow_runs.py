"""Runs of DAGs by Airflow's REST API: started, awaited, and their errors."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

import httpx2

from storekeeper.ops.airflow_client import AirflowClient
from storekeeper.ops.errors import StartError

_FINAL_STATES = frozenset({"success", "failed"})
_PAUSE_S = 0.5


class AirflowRuns(AirflowClient):
    """The client of `storekeeper up`, with runs."""

    def trigger(self, dag_id: str, conf: Mapping[str, object] | None = None) -> str:
        """Starts a run with the given params and returns its id."""
        # With an id of our own a repeated request can't start a second run.
        run_id = f"manual__{uuid.uuid4()}"
        run = {"dag_run_id": run_id, "logical_date": None, "conf": dict(conf or {})}
        self._request("POST", f"/api/v2/dags/{dag_id}/dagRuns", run, fine=(httpx2.codes.CONFLICT,))
        return run_id

    def run_state(self, dag_id: str, run_id: str) -> str:
        """The state of a run: queued, running, success or failed."""
        return str(self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}")["state"])

    def _is_running(self, dag_id: str) -> bool:
        found = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns?state=running&limit=1")
        return bool(found["dag_runs"])

    def _tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The tasks of a run: one entry per map index of a mapped task."""
        found = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return list(found["task_instances"])

    def _last_error(self, task: Mapping[str, Any]) -> str:
        """The errors of the task's last try: the caller may have stopped Airflow before a link is followed."""
        name, try_number = task["task_id"], task["try_number"]
        if task["map_index"] >= 0:
            name = f"{name} {task.get('rendered_map_index') or task['map_index']}"
        path = f"/api/v2/dags/{task['dag_id']}/dagRuns/{task['dag_run_id']}/taskInstances/{task['task_id']}"
        query = f"full_content=true&map_index={task['map_index']}"
        try:
            lines = self._request("GET", f"{path}/logs/{try_number}?{query}")["content"]
        except StartError as error:
            return f"{name}: its log can't be read: {error}"
        errors = "\n".join(_words(line) for line in lines if _is_error(line))
        return f"{name}, try {try_number}: {errors or 'its log has no error'}"

    def wait_for_run(
        self, dag_id: str, run_id: str, timeout_s: float, on_poll: Callable[[str], None] | None = None
    ) -> None:
        """Waits until a run has succeeded; calls `on_poll` with its state about once a second.

        Time in the queue behind another run of its DAG doesn't count: that may be the hourly run, and it has its own
        time limit.

        Raises:
            StartError: it failed, or did not end within `timeout_s`.
        """
        deadline = time.monotonic() + timeout_s
        while (state := self.run_state(dag_id, run_id)) not in _FINAL_STATES:
            if on_poll is not None:
                on_poll(state)
            if state == "queued" and self._is_running(dag_id):
                deadline = time.monotonic() + timeout_s
            if time.monotonic() >= deadline:
                msg = f"DAG {dag_id} is still {state} after {timeout_s:.0f} s: see {self._url}/dags/{dag_id}."
                raise StartError(msg)
            self._sleep(_PAUSE_S)
        if state == "failed":
            failed = [task for task in self._tasks(dag_id, run_id) if task["state"] == "failed"]
            tasks = ", ".join(dict.fromkeys(task["task_id"] for task in failed)) or "none of its tasks"
            msg = f"DAG {dag_id} failed (task {tasks}): see its log at {self._url}/dags/{dag_id}/runs/{run_id}."
            raise StartError("\n".join([msg, *map(self._last_error, failed)]))


def _is_error(line: object) -> bool:
    return isinstance(line, dict) and line.get("level") in {"error", "critical"}


def _words(line: Mapping[str, Any]) -> str:
    causes = [f"{error.get('exc_type')}: {error.get('exc_value')}" for error in line.get("error_detail") or ()]
    return "\n".join([str(line["event"]), *causes])
