"""The client of Airflow's REST API, against an Airflow that is a dict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx2
import pytest

from deploy.airflow_client import AirflowClient
from deploy.errors import StartError

PASSWORD = "secret"

_HEALTHY = {name: {"status": "healthy"} for name in ("metadatabase", "scheduler", "triggerer", "dag_processor")}


@dataclass(slots=True)
class FakeAirflow:
    """Answers as Airflow does, for one DAG `known`."""

    states: list[str] = field(default_factory=lambda: ["queued", "running", "success"])
    health: dict[str, Any] = field(default_factory=lambda: dict(_HEALTHY))
    token: str = "first"
    logins: int = 0
    others_running: int = 0
    conf: Any = None
    paused: bool = True

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
            self.conf = json.loads(request.content)["conf"]
            return httpx2.Response(200, json={"dag_run_id": "r1"})
        if request.method == "GET" and path == run:
            assert request.url.params["state"] == "running"
            self.others_running -= 1
            return httpx2.Response(200, json={"dag_runs": [{"dag_run_id": "hourly"}] * (self.others_running >= 0)})
        if path == f"{run}/r1":
            return httpx2.Response(200, json={"state": self.states.pop(0)})
        if path == f"{run}/r1/taskInstances":
            tasks = [{"task_id": "good", "state": "success"}, {"task_id": "bad", "state": "failed"}]
            return httpx2.Response(200, json={"task_instances": tasks})
        if path == "/api/v2/dags/known":
            self.paused = json.loads(request.content)["is_paused"] if request.method == "PATCH" else self.paused
            return httpx2.Response(200, json={})
        return httpx2.Response(404, json={"detail": "not found"})


@pytest.fixture
def airflow() -> FakeAirflow:
    return FakeAirflow()


@pytest.fixture
def client(airflow: FakeAirflow) -> Iterator[AirflowClient]:
    with _client(airflow) as made:
        yield made


def _client(airflow: FakeAirflow, password: str = PASSWORD) -> AirflowClient:
    return AirflowClient("http://airflow", "admin", password, transport=httpx2.MockTransport(airflow))


def test_a_run_is_unpaused_triggered_and_awaited(airflow: FakeAirflow, client: AirflowClient) -> None:
    client.run("known", {"app": "loyalty"}, timeout_s=60)
    assert airflow.conf == {"app": "loyalty"}
    assert not airflow.paused
    assert airflow.states == []
    assert airflow.logins == 1


def test_a_failed_run_names_its_tasks_and_where_to_look(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.states = ["failed"]
    with pytest.raises(StartError, match=r"DAG known failed \(task bad\): see its log at http://airflow/dags/known/"):
        client.run("known", None, timeout_s=60)


def test_a_run_that_takes_too_long_is_given_up(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.states = ["running"]
    with pytest.raises(StartError, match="still running after 0 s"):
        client.run("known", None, timeout_s=0)


def test_a_run_may_stand_in_line_for_as_long_as_another_one_runs(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.states, airflow.others_running = ["queued", "queued", "success"], 2
    client.run("known", None, timeout_s=0.1)
    assert airflow.states == []


def test_a_run_that_stands_in_line_behind_nothing_is_given_up(airflow: FakeAirflow, client: AirflowClient) -> None:
    airflow.states, airflow.others_running = ["queued"] * 4, 1
    with pytest.raises(StartError, match="still queued"):
        client.run("known", None, timeout_s=0.1)


def test_an_expired_token_is_renewed(airflow: FakeAirflow, client: AirflowClient) -> None:
    assert client.has_dag("known")
    airflow.token = "second"
    assert client.has_dag("known")
    assert airflow.logins == 2


def test_a_slow_answer_is_asked_for_again_but_no_run_is_begun_twice(airflow: FakeAirflow) -> None:
    slow: list[str] = []

    def twice_too_slow(request: httpx2.Request) -> httpx2.Response:
        if request.url.path.startswith("/api/v2/dags") and slow.count(request.method) < 2:
            slow.append(request.method)
            raise httpx2.ReadTimeout("busy", request=request)
        return airflow(request)

    with AirflowClient("http://airflow", "admin", PASSWORD, transport=httpx2.MockTransport(twice_too_slow)) as client:
        assert client.has_dag("known")
        client.unpause("known")
        with pytest.raises(StartError, match="ReadTimeout"):
            client.trigger("known")
    assert slow.count("POST") == 1


def test_an_unknown_dag_is_not_there(client: AirflowClient) -> None:
    assert not client.has_dag("unknown")


def test_a_wrong_password_is_one_sentence(airflow: FakeAirflow) -> None:
    with _client(airflow, password="wrong") as client, pytest.raises(StartError, match=r"Airflow refused .* with 401"):
        client.has_dag("known")


def test_health_needs_every_component(airflow: FakeAirflow, client: AirflowClient) -> None:
    assert client.is_healthy()
    airflow.health["triggerer"] = {"status": None}
    assert client.health()["triggerer"] == "unhealthy"
    assert not client.is_healthy()


def test_an_airflow_that_is_down_is_unreachable() -> None:
    def refuse(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("refused", request=request)

    with AirflowClient("http://airflow", "admin", "", transport=httpx2.MockTransport(refuse)) as client:
        assert set(client.health().values()) == {"unreachable"}
        with pytest.raises(StartError, match="does not answer"):
            client.has_dag("known")
