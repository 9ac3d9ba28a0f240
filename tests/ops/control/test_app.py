"""The routes, in this process: what they answer, and to whom."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis.specs.openapi.checks import positive_data_acceptance
from starlette.testclient import TestClient

from harness.tokens import write_callers
from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.node.query.answers.answer import MEDIA_TYPE
from storekeeper.node.security.access import (
    Authenticator,
    Caller,
    Role,
    TokenBook,
    new_token,
)
from storekeeper.ops.control.access import Callers, Gate, own_token
from storekeeper.ops.control.app import make_app
from storekeeper.ops.control.jobs import Jobs, end_job_processes
from storekeeper.ops.control.problems import UnknownAppError, UnknownTableError
from storekeeper.ops.control.views import PlatformViews
from storekeeper.ops.platform_apps import PlatformApps
from storekeeper.ops.waiting import eventually
from storekeeper.quality.settings import QualitySettings
from tests.ops.control.toys import await_begin, let_end, toy

CLOCK = SystemClock()
TOKENS = {role: new_token() for role in Role}


class Views(PlatformViews):
    """A platform that is made up; its topologies and Data Docs are real."""

    def __init__(self) -> None:
        """Looks at nothing but the configured apps."""

    def _apps(self) -> PlatformApps:
        return PlatformApps.configured()

    def status(self) -> dict[str, Any]:
        return {"healthy": True}

    def programs(self) -> dict[str, list[str]]:
        return {"pos": ["pos"]}

    def stores(self) -> list[dict[str, Any]]:
        return [{"store": "rewards", "app": "pos", "has_run": True}]

    def generations(self, app: str) -> dict[str, Any]:
        if app != "pos":
            raise UnknownAppError("there is no such app")
        return {"app": app}

    def overview(self) -> dict[str, Any]:
        return {"at_ms": 0}

    def waiting(self, table: str) -> dict[str, int] | None:
        if table != "hadoop_export":
            raise UnknownTableError("there is no such table")
        return {"first_version": 3, "last_version": 7, "rows": 20}


def jobs_in(folder: Path) -> Jobs:
    return Jobs(folder / "jobs", dict(os.environ), clock=CLOCK, command=toy)  # noqa: TID251 (handed on)


def metrics() -> bytes:
    return b"spark_app_up 1.0"


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    path = tmp_path / "tokens"
    write_callers(path, {token: Caller(str(role), frozenset({role})) for role, token in TOKENS.items()})
    callers = Callers(own_token(tmp_path / "control.token"), Authenticator(TokenBook(path, CLOCK)))
    jobs = jobs_in(tmp_path)
    yield Gate(make_app(jobs, Views(), metrics), callers)
    end_job_processes(tmp_path / "jobs")


@pytest.fixture
def client(gate: Gate, tmp_path: Path) -> Iterator[TestClient]:
    found = TestClient(gate, raise_server_exceptions=False)
    found.headers["Authorization"] = f"Bearer {own_token(tmp_path / 'control.token')}"
    with start_blocking_portal() as found.portal:  # one event loop for all requests: jobs run in it
        yield found
        end_job_processes(tmp_path / "jobs")
        # A loop that closes before would leave their processes to the garbage collector.
        assert eventually(lambda: all(job["state"] != "running" for job in found.get("/jobs").json()), 60)


def test_nobody_gets_in_without_a_token(gate: Gate) -> None:
    stranger = TestClient(gate)
    views = ("/status", "/metrics", "/programs", "/generations/pos", "/overview", "/topology/pos", "/data-docs/orders")
    for path in (*views, "/jobs", "/openapi.json", "/nowhere"):
        answer = stranger.get(path)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer"), path
        assert stranger.get(path, headers={"Authorization": "Bearer skt_wrong"}).status_code == 401
        assert stranger.get(path, headers={"Authorization": ""}).status_code == 401
    assert stranger.put("/jobs/one", json={"arguments": ["verify", "rewards"]}).status_code == 401
    assert stranger.get("/livez").text == "alive\n"


def test_metrics_are_for_every_token_and_on_loopback_for_everybody(gate: Gate, tmp_path: Path) -> None:
    app, callers = make_app(jobs_in(tmp_path), Views(), metrics), Callers("own", Authenticator(None))
    anybody = TestClient(Gate(app, callers, is_open={"/metrics"}))
    assert (anybody.get("/metrics").text, anybody.get("/status").status_code) == ("spark_app_up 1.0", 401)
    for token in TOKENS.values():
        told = TestClient(gate).get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert (told.status_code, told.text) == (200, "spark_app_up 1.0")


@pytest.mark.parametrize("other", [b"Bearer skt_wrong", None])
def test_two_tokens_are_none(gate: Gate, tmp_path: Path, other: bytes | None) -> None:
    own = f"Bearer {own_token(tmp_path / 'control.token')}".encode()
    for pair in ((own, other or own), (other or own, own)):
        answer = TestClient(gate).get("/status", headers=[(b"Authorization", one) for one in pair])
        assert answer.status_code == 400
        assert "authorization is given twice" in answer.text


def test_without_tokens_of_others_the_own_one_is_still_needed(tmp_path: Path) -> None:
    token = own_token(tmp_path / "control.token")
    assert own_token(tmp_path / "control.token") == token
    client = TestClient(Gate(make_app(jobs_in(tmp_path), Views(), metrics), Callers(token, Authenticator(None))))
    assert client.get("/status").status_code == 401
    assert client.get("/status", headers={"Authorization": f"Bearer {token}"}).json() == {"healthy": True}


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    own_token(tmp_path / "control.token")
    (tmp_path / "control.token").chmod(0o644)
    with pytest.raises(ConfigurationError, match="others can read"):
        own_token(tmp_path / "control.token")


def test_an_empty_token_lets_nobody_in(tmp_path: Path) -> None:
    file = tmp_path / "control.token"
    own_token(file)
    file.write_bytes(b"\n")
    with pytest.raises(ConfigurationError, match="is empty: delete it for a new one"):
        own_token(file)


def test_a_topology_is_a_picture_a_text_and_a_source(client: TestClient) -> None:
    found = client.get("/topology/pos").json()
    assert found["svg"].startswith("<svg")
    assert found["mermaid"].startswith("flowchart")
    assert "rewards" in found["text"]
    none = client.get("/topology/hadoop_export")
    assert (none.status_code, none.json()["type"].rpartition(":")[2]) == (404, "nothing-to-show")
    module = client.get("/topology/spark_apps.pos:POS")
    assert (module.status_code, "there is no app" in module.json()["detail"]) == (404, True)


def test_data_docs_are_pages_and_styles_of_their_folder_alone(
    client: TestClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    folder = QualitySettings.of_platform().data_docs_dir("orders")
    folder.mkdir(parents=True)
    (folder / "index.html").write_text("<h1>Data Docs</h1>")
    (folder / "notes.json").write_text("a secret")
    (folder.parent.parent / "secret.html").write_text("a secret")
    (folder / "link.html").symlink_to(folder.parent.parent / "secret.html")
    page = client.get("/data-docs/orders", params={"file": "index.html"})
    assert (page.text, page.headers["content-type"]) == ("<h1>Data Docs</h1>", "text/html; charset=utf-8")
    for table, file in (
        ("orders", "../../secret.html"),
        ("orders", str(folder.parent.parent / "secret.html")),
        ("orders", "link.html"),
        ("orders", "notes.json"),
        ("orders", "none.html"),
        ("orders", "\0.html"),
        ("%2E%2E", "secret.html"),
        ("nothing", "index.html"),
    ):
        refused = client.get(f"/data-docs/{table}", params={"file": file})
        assert refused.status_code == 404, file
        assert "a secret" not in refused.text


@pytest.mark.parametrize("role", Role)
def test_only_operators_may_run_jobs(gate: Gate, role: Role, tmp_path: Path) -> None:
    let_end(tmp_path / "one")
    client = TestClient(gate)
    client.headers["Authorization"] = f"Bearer {TOKENS[role]}"
    assert client.get("/status").status_code == 200
    expected = (201, 200) if role is Role.OPERATOR else (403, 403)
    order = {"arguments": ["verify", str(tmp_path / "one")]}
    with start_blocking_portal() as client.portal:
        assert (client.put("/jobs/one", json=order).status_code, client.get("/jobs/one").status_code) == expected
        if role is Role.OPERATOR:  # a loop that closes before would leave its process to the garbage collector
            assert eventually(lambda: client.get("/jobs/one").json()["state"] != "running", 60)


def test_a_job_by_its_routes(client: TestClient, tmp_path: Path) -> None:
    file = tmp_path / "one"
    order = {"arguments": ["verify", str(file)]}
    assert client.put("/jobs/one", json=order).status_code == 201
    await_begin(file)
    again = client.put("/jobs/one", json=order)
    assert (again.status_code, again.json()["state"], again.json()["caller"]) == (200, "running", "platform")
    other = client.put("/jobs/one", json={"arguments": ["verify", "other"]})
    assert (other.status_code, other.headers["content-type"]) == (409, MEDIA_TYPE)
    assert [job["id"] for job in client.get("/jobs").json()] == ["one"]
    found = client.get("/jobs/one", params={"log_from": 0}).json()
    assert found["log"] == "verify begins\n"
    assert client.get("/jobs/one", params={"log_from": found["log_position"]}).json()["log"] == ""
    assert found["cancel_reason"] is None
    for reason in ("not today", ""):
        cancelled = client.post("/jobs/one/cancel", params={"reason": reason} if reason else {})
        assert (cancelled.status_code, cancelled.json()["cancel_reason"]) == (200, "not today")


def test_bad_requests_have_one_clear_answer(client: TestClient) -> None:
    for order, why in (
        ({"arguments": ["down"]}, "'down' can't run as a job"),
        ({"arguments": []}, "'' can't run as a job"),
        ({}, "arguments: Field required"),
        ({"arguments": ["verify", "rewards"], "shell": True}, "shell: Extra inputs are not permitted"),
    ):
        answer = client.put("/jobs/one", json=order)
        assert answer.status_code == 400
        assert why in answer.json()["detail"]
    assert client.put("/jobs/%2e%2e", json={"arguments": ["verify", "rewards"]}).status_code in {400, 404, 405}
    assert client.get("/jobs/one", params={"logfrom": 1}).status_code == 400
    assert client.get("/jobs/none").json()["type"].endswith("unknown-job")
    assert client.put("/jobs/one", content=b"x" * (2 << 20)).status_code == 413
    assert client.get("/generations/os:path").status_code == 404
    assert client.get("/jobs").json() == []


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_no_request_brings_it_to_a_server_error(gate: Gate, tmp_path: Path) -> None:
    document = schemathesis.openapi.from_asgi(
        "/openapi.json", gate, headers={"Authorization": f"Bearer {own_token(tmp_path / 'control.token')}"}
    )
    operations = list(document.get_all_operations())
    assert len(operations) == 14
    for operation in operations:
        _ask(operation, ["verify", str(tmp_path / "a")])
    end_job_processes(tmp_path / "jobs")
    gc.collect()  # each request had an event loop of its own, which left its jobs' processes: not to the next test


def _ask(operation: Any, allowed: list[str]) -> None:
    @given(case=operation.ok().as_strategy(), words=st.sampled_from([allowed, ["down"], []]))
    @settings(max_examples=10, suppress_health_check=list(HealthCheck), deadline=None)
    def ask(case: Any, words: list[str]) -> None:
        if isinstance(case.body, dict) and "arguments" in case.body:
            case.body["arguments"] = words
        answer = case.call(headers={"Authorization": f"Bearer {TOKENS[Role.OPERATOR]}"})
        case.validate_response(answer, excluded_checks=[positive_data_acceptance])

    ask()
