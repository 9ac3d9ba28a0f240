"""The client, against answers made up."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

import httpx2
import pytest

from state.clock import ManualClock
from state.errors import InvalidArgumentError, StateError, StoreUnavailableError, UnknownStoreError
from state.query.client import StateClient

Answers = Callable[[httpx2.Request], httpx2.Response]


def problem(status: int, kind: str) -> httpx2.Response:
    return httpx2.Response(status, json={"type": f"urn:storekeeper:problem:{kind}", "detail": "told"})


def client(answers: Answers, *addresses: str) -> StateClient:
    clock = ManualClock()
    return StateClient(
        addresses or ["http://a"],
        timeout_s=2,
        clock=clock,
        sleep=lambda seconds: clock.advance(round(seconds * 1000)),
        transport=httpx2.MockTransport(answers),
    )


def test_numbers_keep_their_digits() -> None:
    row = b'{"key": "k", "value": {"TotalLoyaltyPoints": 0.1000}}'
    with client(lambda _: httpx2.Response(200, content=row)) as found:
        assert found.store("rewards").get("k") == {"TotalLoyaltyPoints": Decimal("0.1000")}


def test_where_an_answer_comes_from() -> None:
    headers = {"storekeeper-served-by": "b", "storekeeper-role": "standby", "storekeeper-offset-lag": "7"}
    with client(lambda _: httpx2.Response(200, json={"key": "k", "value": 1}, headers=headers)) as found:
        reading = found.store("rewards").read("k")
    assert (reading.value, reading.served_by, reading.role, reading.offset_lag) == (1, "b", "standby", 7)


def test_an_unknown_key_is_none_and_an_unknown_store_an_error() -> None:
    with client(lambda _: problem(404, "unknown-key")) as found:
        assert found.store("rewards").get("k") is None
    with client(lambda _: problem(404, "unknown-store")) as found, pytest.raises(UnknownStoreError, match="told"):
        found.store("nowhere").get("k")


def test_it_asks_again_while_a_node_restores() -> None:
    answers = [problem(503, "restoring"), problem(429, "too-many-scans"), httpx2.Response(200, json={"value": 5})]
    with client(lambda _: answers.pop(0)) as found:
        assert found.store("rewards").get("k") == 5


def test_it_gives_up_in_time_with_the_last_reason() -> None:
    with (
        client(lambda _: problem(503, "restoring")) as found,
        pytest.raises(StoreUnavailableError, match="within 2 s: told"),
    ):
        found.store("rewards").get("k")


def test_it_turns_to_the_next_node_and_stays_there() -> None:
    asked: list[str] = []

    def answers(request: httpx2.Request) -> httpx2.Response:
        asked.append(request.url.host)
        if request.url.host == "a":
            raise httpx2.ConnectError("refused")
        return httpx2.Response(200, json={"value": 1})

    with client(answers, "http://a", "http://b") as found:
        for _ in range(3):
            assert found.store("rewards").get("k") == 1
    assert asked == ["a", "b", "b", "b"]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(problem(400, "invalid-argument"), InvalidArgumentError), (httpx2.Response(500, text="<html>"), StateError)],
)
def test_what_waiting_does_not_help_is_an_error_at_once(answer: httpx2.Response, error: type[Exception]) -> None:
    with client(lambda _: answer) as found, pytest.raises(error):
        found.store("rewards").get("k")


def test_pages_are_followed_to_the_end() -> None:
    def answers(request: httpx2.Request) -> httpx2.Response:
        if "cursor" not in request.url.params:
            assert request.url.params["limit"] == "1"
            return httpx2.Response(200, json=[{"key": "a", "value": 1}], headers={"storekeeper-next-cursor": "c1"})
        assert request.url.params["cursor"] == "c1"
        return httpx2.Response(200, json=[{"key": "b", "value": 2}])

    with client(answers) as found:
        assert list(found.store("rewards").range("a", "b", page_rows=1)) == [("a", 1), ("b", 2)]


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a/b", "/state/keyvalue/rewards/a%2Fb?key_format=string"),
        ("ä %", "/state/keyvalue/rewards/%C3%A4%20%25?key_format=string"),
        ("..", "/state/keyvalue/rewards/Li4=?key_format=base64url"),
        (b"\xff", "/state/keyvalue/rewards/%FF?key_format=string"),
    ],
)
def test_keys_are_written_so_that_they_arrive(key: str | bytes, path: str) -> None:
    seen: list[str] = []

    def answers(request: httpx2.Request) -> httpx2.Response:
        seen.append(request.url.raw_path.decode())
        return httpx2.Response(200, json={"value": 1})

    with client(answers) as found:
        found.store("rewards").get(key)
    assert seen == [path]


def test_readiness() -> None:
    with client(lambda _: httpx2.Response(503)) as found:
        assert not found.ready()
    with client(lambda _: httpx2.Response(200)) as found:
        assert found.ready()


def test_it_needs_somebody_to_ask() -> None:
    with pytest.raises(InvalidArgumentError):
        StateClient([])
