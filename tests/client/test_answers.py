"""What an attempt that got no answer is said to have failed of, against nodes on real sockets."""

from __future__ import annotations

import http.client
from collections.abc import Callable
from urllib.parse import urlsplit

import httpx2
import pytest

from storekeeper.client.answers import failure_of
from tests.client.fake_node import accepts_nothing, fake_node, hangs

_WAIT_S = 0.3


def test_the_time_is_told_in_milliseconds() -> None:
    assert failure_of(TimeoutError(), 1.99999).reason == "no answer within 2 s"
    assert failure_of(TimeoutError(), 0.0271035).reason == "no answer within 0.027 s"


def by_httpx(address: str) -> None:
    with httpx2.Client(timeout=_WAIT_S, trust_env=False) as client:
        client.get(address)


def by_http_client(address: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=_WAIT_S)
    try:
        connection.request("GET", "/")
        connection.getresponse()
    finally:
        connection.close()


def reason(ask: Callable[[str], None], address: str) -> str:
    with pytest.raises((OSError, httpx2.HTTPError, http.client.HTTPException)) as caught:
        ask(address)
    return failure_of(caught.value, _WAIT_S).reason


@pytest.mark.parametrize("ask", [by_httpx, by_http_client])
def test_a_node_that_takes_no_connection_lets_the_time_run_out(ask: Callable[[str], None]) -> None:
    with accepts_nothing() as full:
        assert reason(ask, full) == "no answer within 0.3 s"


@pytest.mark.parametrize("ask", [by_httpx, by_http_client])
def test_a_node_that_says_nothing_lets_the_time_run_out_and_one_that_is_gone_does_not(
    ask: Callable[[str], None],
) -> None:
    with fake_node(hangs) as node:
        assert reason(ask, node.address) == "no answer within 0.3 s"
    assert reason(ask, node.address).startswith("does not answer (Conn")
