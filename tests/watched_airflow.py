"""Airflow as tests watch it: runs, their tasks and questions, beside what the product asks."""

from __future__ import annotations

from typing import Any

from demo.airflow_runs import AirflowRuns


class WatchedAirflow(AirflowRuns):
    """A client with the calls that tests need."""

    def newest_run(self, dag_id: str) -> dict[str, Any]:
        """The newest run: `dag_run_id`, `conf` and more."""
        found = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns?order_by=-id&limit=1")
        return dict(found["dag_runs"][0])

    def task_states(self, dag_id: str, run_id: str) -> dict[str, str | None]:
        """The state of each task of a run; None before it was scheduled. Of a mapped task, any one that failed, or else
        the last.
        """
        states: dict[str, str | None] = {}
        for task in self._tasks(dag_id, run_id):
            if states.get(task["task_id"]) != "failed":
                states[task["task_id"]] = task["state"]
        return states

    def clear(self, dag_id: str, run_id: str, task_id: str) -> None:
        """Clears a task of a run, whatever its state, so that it runs again."""
        wanted = {"dry_run": False, "dag_run_id": run_id, "task_ids": [task_id], "only_failed": False}
        self._request("POST", f"/api/v2/dags/{dag_id}/clearTaskInstances", wanted)

    def questions(self, dag_id: str, run_id: str) -> dict[str, dict[str, Any]]:
        """A run's unanswered questions to people, by task: `subject`, `body`, `options` and more."""
        found = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/hitlDetails")
        open_ones = (detail for detail in found["hitl_details"] if not detail["response_received"])
        return {detail["task_instance"]["task_id"]: detail for detail in open_ones}

    def answer(self, dag_id: str, run_id: str, task_id: str, option: str) -> None:
        """Answers a task's question with one of its options, as this user. Mapped tasks aren't supported."""
        path = f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/-1/hitlDetails"
        self._request("PATCH", path, {"chosen_options": [option], "params_input": {}})
