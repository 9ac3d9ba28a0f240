"""The client of Airflow's REST API, against an Airflow that is a dict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from demo.airflow_runs import AirflowRuns
from storekeeper.ops.errors import StartError
from tests.watched_airflow import WatchedAirflow

PASSWORD = "secret"

_HEALTHY = {name: {"status": "healthy"} for name in ("metadatabase", "scheduler", "triggerer", "dag_processor")}


@dataclass(slots=True)
class FakeAirflow:
    """Answers as Airflow does, for one DAG `known`."""

    states: list[str] = field(default_factory=lambda: ["queued", "running", "success"])
    health: dict[str, Any] = field(default_factory=lambda: dict(_HEALTHY))
    token: str = "first"
    logins: int = 0
    runs: list[str] = field(default_factory=list)
    others_running: int = 0
    conf: Any = None
    log: list[dict[str, Any]] | None = None
    paused: bool = True
    pools: list[dict[str, Any]] = field(default_factory=list)

    def __call__(self, request: httpx2.Request) -> httpx2.Response:
        path = request.url.path
        if path == "/api/v2/monitor/health":
            return httpx2.Response(200, json=self.health)
        if path == "/auth/token":
            self.logins += 1
            known = json.loads(request.content) == {"username": "admin", "password": PASSWORD}
            return httpx2.Response(201 if known else 401, json={"access_token": self.token})
        if request.headers.get("Authorization") != f"Bearer {self.token}":
            return httpx2.Response(401, json={"detail": "Invalid JWT token"})
        return self._answer(request, path)

    def _answer(self, request: httpx2.Request, path: str) -> httpx2.Response:
        run = "/api/v2/dags/known/dagRuns"
        if request.method == "POST" and path == run:
            return self._begun(json.loads(request.content))
        if request.method == "GET" and path == run:
            assert request.url.params["state"] == "running"
            self.others_running -= 1
            return httpx2.Response(200, json={"dag_runs": [{"dag_run_id": "hourly"}] * (self.others_running >= 0)})
        if self.runs and path.startswith(f"{run}/{self.runs[-1]}"):
            return self._of_run(path.removeprefix(f"{run}/{self.runs[-1]}"), request.url.params)
        if path == "/api/v2/pools":
            is_new = not self.pools
            self.pools += [json.loads(request.content)] * is_new
            return httpx2.Response(201 if is_new else 409, json={})
        if path == "/api/v2/dags/known":
            self.paused = json.loads(request.content)["is_paused"] if request.method == "PATCH" else self.paused
            return httpx2.Response(200, json={})
        return httpx2.Response(404, json={"detail": "not found"})

    def _of_run(self, path: str, query: httpx2.QueryParams) -> httpx2.Response:
        if not path:
            return httpx2.Response(200, json={"state": self.states.pop(0)})
        if path == "/taskInstances":
            run = {"dag_id": "known", "dag_run_id": self.runs[-1], "try_number": 2}
            good = run | {"task_id": "good", "state": "success", "map_index": -1}
            bad, later = (
                run | {"task_id": "bad", "state": state, "map_index": index, "rendered_map_index": name}
                for state, index, name in (("failed", 0, "sales"), ("success", 1, None))
            )
            return httpx2.Response(200, json={"task_instances": [good, bad, later]})
        if path == "/taskInstances/bad/logs/2" and query["map_index"] == "0" and self.log is not None:
            return httpx2.Response(200, json={"content": self.log})
        return httpx2.Response(404, json={"detail": "not found"})

    def _begun(self, made: dict[str, Any]) -> httpx2.Response:
        if made["dag_run_id"] in self.runs:
            return httpx2.Response(409, json={"detail": "there is such a run"})
        self.conf = made["conf"]
        self.runs.append(made["dag_run_id"])
        return httpx2.Response(200, json=made)


@pytest.fixture
def airflow() -> FakeAirflow:
    return FakeAirflow()


@pytest.fixture
def client(airflow: FakeAirflow) -> Iterator[WatchedAirflow]:
    with _client(airflow) as made:
        yield made


def _client(airflow: FakeAirflow, password: str = PASSWORD) -> WatchedAirflow:
    return WatchedAirflow("http://airflow", "admin", password, transport=httpx2.MockTransport(airflow))


def test_a_run_is_unpaused_triggered_and_awaited(airflow: FakeAirflow, client: AirflowRuns) -> None:
    client.unpause("known")
    client.wait_for_run("known", client.trigger("known", {"app": "pos"}), 60)
    assert airflow.conf == {"app": "pos"}
    assert not airflow.paused
    assert airflow.states == []
    assert airflow.logins == 1


def test_a_failed_run_names_its_tasks_and_where_to_look(airflow: FakeAirflow, client: AirflowRuns) -> None:
    airflow.states = ["failed"]
    with pytest.raises(StartError, match=r"DAG known failed \(task bad\): see its log at http://airflow/dags/known/"):
        client.wait_for_run("known", client.trigger("known"), 60)


def test_a_mapped_task_that_failed_is_not_hidden_by_a_later_one(airflow: FakeAirflow, client: WatchedAirflow) -> None:
    assert client.task_states("known", client.trigger("known")) == {"good": "success", "bad": "failed"}


def test_a_failed_run_has_the_errors_of_its_tasks(airflow: FakeAirflow, client: AirflowRuns) -> None:
    airflow.states = ["failed"]
    cause = {"exc_type": "AirflowFailException", "exc_value": "pos ended with exit code 78"}
    airflow.log = [
        {"event": "ensure pos", "level": "info"},
        {"event": "Task failed with exception", "level": "error", "error_detail": [cause]},
    ]
    with pytest.raises(StartError, match=r"(?s)bad sales, try 2: Task failed.*pos ended with exit code 78") as caught:
        client.wait_for_run("known", client.trigger("known"), 60)
    assert "ensure pos" not in str(caught.value)


def test_a_failed_run_is_told_of_without_a_log(airflow: FakeAirflow, client: AirflowRuns) -> None:
    airflow.states = ["failed"]
    with pytest.raises(
        StartError, match=r"(?s)task bad\).*bad sales: its log can't be read: Airflow refused .* with 404"
    ):
        client.wait_for_run("known", client.trigger("known"), 60)


def test_a_run_that_takes_too_long_is_given_up(airflow: FakeAirflow, client: AirflowRuns) -> None:
    airflow.states = ["running"]
    with pytest.raises(StartError, match="still running after 0 s"):
        client.wait_for_run("known", client.trigger("known"), 0)


def test_a_run_may_stand_in_line_for_as_long_as_another_one_runs(airflow: FakeAirflow, client: AirflowRuns) -> None:
    airflow.states, airflow.others_running = ["queued", "queued", "success"], 2
    client.wait_for_run("known", client.trigger("known"), 0.1)
    assert airflow.states == []


def test_a_run_that_stands_in_line_behind_nothing_is_given_up(airflow: FakeAirflow, client: AirflowRuns) -> None:
    airflow.states, airflow.others_running = ["queued"] * 4, 1
    with pytest.raises(StartError, match="still queued"):
        client.wait_for_run("known", client.trigger("known"), 0.1)


def test_an_expired_token_is_renewed(airflow: FakeAirflow, client: AirflowRuns) -> None:
    assert client.has_dag("known")
    airflow.token = "second"
    assert client.has_dag("known")
    assert airflow.logins == 2


@pytest.mark.parametrize("trouble", ["slow", "locked"])
def test_a_busy_airflow_is_asked_again_and_no_run_is_begun_twice(airflow: FakeAirflow, trouble: str) -> None:
    troubled: list[str] = []

    def twice(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/api/v2/dags") and troubled.count(request.method) < 2:
            troubled.append(request.method)
            if request.method == "POST":
                airflow(request)  # it has been begun, though the answer doesn't say so
            if trouble == "slow":
                raise httpx2.ReadTimeout("busy", request=request)
            return httpx2.Response(500, json={"detail": "Database error"})
        return airflow(request)

    transport, pauses = httpx2.MockTransport(twice), list[float]()
    with AirflowRuns("http://airflow", "admin", PASSWORD, transport=transport, sleep=pauses.append) as client:
        assert client.has_dag("known")
        client.unpause("known")
        run_id = client.trigger("known")
    assert troubled == ["GET", "GET", "PATCH", "PATCH", "POST", "POST"]
    assert len(pauses) == 6
    assert airflow.runs == [run_id]


def test_an_airflow_that_goes_on_failing_is_told_of(airflow: FakeAirflow) -> None:
    def locked(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(500, text="locked") if "dags" in request.url.path else airflow(request)

    transport = httpx2.MockTransport(locked)
    told = pytest.raises(StartError, match=r"Airflow refused PATCH /api/v2/dags/known with 500 \(locked\)")
    with AirflowRuns("http://airflow", "admin", PASSWORD, transport=transport, sleep=lambda _: None) as client, told:
        client.unpause("known")


def test_an_unknown_dag_is_not_there(client: AirflowRuns) -> None:
    assert not client.has_dag("unknown")


def test_a_wrong_password_is_one_sentence(airflow: FakeAirflow) -> None:
    with _client(airflow, password="wrong") as client, pytest.raises(StartError, match=r"Airflow refused .* with 401"):
        client.has_dag("known")


def test_health_is_that_of_each_component(airflow: FakeAirflow, client: AirflowRuns) -> None:
    assert set(client.health().values()) == {"healthy"}
    airflow.health["triggerer"] = {"status": None}
    assert client.health()["triggerer"] == "unhealthy"


def test_an_airflow_that_is_down_is_unreachable() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with AirflowRuns("http://airflow", "admin", "", transport=httpx2.MockTransport(refuse)) as client:
        assert set(client.health().values()) == {"unreachable"}
        with pytest.raises(StartError, match="does not answer"):
            client.has_dag("known")


def test_a_pool_that_is_there_stays_as_a_person_has_changed_it(airflow: FakeAirflow, client: AirflowRuns) -> None:
    for _ in range(2):
        client.make_pool("storekeeper", 2, "jobs")
    assert airflow.pools == [{"name": "storekeeper", "slots": 2, "description": "jobs", "include_deferred": True}]
