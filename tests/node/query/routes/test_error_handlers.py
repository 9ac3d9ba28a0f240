"""What an application answers to errors: its own, the framework's, and defects."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fastapi import FastAPI, Response
from fastapi.testclient import TestClient

from storekeeper.errors import InvalidArgumentError
from storekeeper.node.query.answers.answer import problem_of
from storekeeper.node.query.routes.error_handlers import answer_errors


@pytest.fixture
def client() -> Iterator[TestClient]:
    app = FastAPI()

    @app.get("/half/{number}")
    def half(number: int) -> float:
        if number == 0:
            raise RuntimeError("secret")
        if number % 2:
            raise InvalidArgumentError("the number is odd")
        return number / 2

    answer_errors(app, problem_of, lambda problem: Response(problem.body(), problem.status))
    with TestClient(app, raise_server_exceptions=False) as client:
        yield client


@pytest.mark.parametrize(
    ("method", "path", "status", "kind"),
    [
        ("GET", "/half/3", 400, "invalid-argument"),
        ("GET", "/half/x", 400, "invalid-argument"),
        ("GET", "/third/3", 404, "unknown-route"),
        ("POST", "/half/4", 405, "method-not-allowed"),
        ("GET", "/half/0", 500, "internal"),
    ],
)
def test_each_error_is_a_problem(client: TestClient, method: str, path: str, status: int, kind: str) -> None:
    answer = client.request(method, path)
    assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (status, kind)
    assert "secret" not in answer.text


def test_the_framework_s_headers_are_kept(client: TestClient) -> None:
    assert client.post("/half/4").headers["allow"] == "GET"
