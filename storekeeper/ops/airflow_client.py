"""A client of Airflow's REST API: the calls that `up` needs."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import httpx2

from storekeeper.node.security.no_tls import NO_TLS
from storekeeper.ops.errors import StartError

_FINAL_STATES = frozenset({"success", "failed"})
_REPEATS = 4
_PAUSE_S = 0.5


class AirflowClient:
    """Talks to one Airflow as one user, by plain HTTP. Not thread-safe; close it or use it as a context manager."""

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`url` is the base address without a trailing slash; `timeout_s` bounds each request.

        `transport` stands in for the network.
        """
        self._sleep = sleep
        self._http = httpx2.Client(base_url=url, timeout=timeout_s, trust_env=False, verify=NO_TLS, transport=transport)
        self._url = url
        self._login = {"username": username, "password": password}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def health(self) -> dict[str, str]:
        """Each component's health: `healthy`, `unhealthy`, or `unreachable` for all when the API doesn't answer."""
        components = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5.0)
            answer.raise_for_status()
            fields = answer.json()
        except (httpx2.HTTPError, ValueError):
            return dict.fromkeys(components, "unreachable")
        return {name: (fields.get(name) or {}).get("status") or "unhealthy" for name in components}

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG has been parsed."""
        return self._request("GET", f"/api/v2/dags/{dag_id}", fine=(httpx2.codes.NOT_FOUND,)) is not None

    def import_errors(self) -> list[str]:
        """The files that could not be parsed, each with the last line of its error."""
        errors = self._request("GET", "/api/v2/importErrors") or {}
        return [f"{e['filename']}: {e['stack_trace'].strip().splitlines()[-1]}" for e in errors["import_errors"]]

    def unpause(self, dag_id: str) -> None:
        """Unpauses the DAG: a new one is paused."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

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
        runs = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns?state=running&limit=1")
        return bool(runs["dag_runs"])

    def _tasks(self, dag_id: str, run_id: str) -> list[dict[str, Any]]:
        """The tasks of a run: one entry per map index of a mapped task."""
        tasks = self._request("GET", f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances")
        return list(tasks["task_instances"])

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

    def _request(self, method: str, path: str, body: object = None, *, fine: Sequence[int] = ()) -> Any:
        """The answer's JSON; None if the status is one of `fine`."""
        try:
            answer = self._send(method, path, body)
            if answer.status_code in fine:
                return None
            answer.raise_for_status()
        except httpx2.HTTPStatusError as error:
            detail = error.response.text[:200]
            msg = f"Airflow refused {method} {path} with {error.response.status_code} ({detail}): see its log."
            raise StartError(msg) from error
        except httpx2.HTTPError as error:
            msg = f"Airflow at {self._url} does not answer ({type(error).__name__}): see the log of airflow-api-server."
            raise StartError(msg) from error
        return answer.json()

    def _send(self, method: str, path: str, body: object) -> httpx2.Response:
        if "Authorization" not in self._http.headers:
            self._log_in()
        answer = self._asked(method, path, body)
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            self._log_in()  # the token has expired
            answer = self._asked(method, path, body)
        return answer

    def _asked(self, method: str, path: str, body: object) -> httpx2.Response:
        """Repeats a request if Airflow takes too long on a busy machine or finds its database locked.

        Every request here may be repeated: the second one changes nothing.
        """
        for _ in range(_REPEATS):
            with contextlib.suppress(httpx2.TimeoutException):
                answer = self._http.request(method, path, json=body)
                if not answer.is_server_error:
                    return answer
            self._sleep(_PAUSE_S)
        return self._http.request(method, path, json=body)

    def _log_in(self) -> None:
        self._http.headers.pop("Authorization", None)
        answer = self._http.post("/auth/token", json=self._login)
        answer.raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"


def _is_error(line: object) -> bool:
    return isinstance(line, dict) and line.get("level") in {"error", "critical"}


def _words(line: Mapping[str, Any]) -> str:
    causes = [f"{error.get('exc_type')}: {error.get('exc_value')}" for error in line.get("error_detail") or ()]
    return "\n".join([str(line["event"]), *causes])
