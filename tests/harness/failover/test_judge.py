"""The judge of the failover tests finds what it is there to find; the network between nodes does as it is set."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from harness.failover.oracle import Oracle
from harness.failover.proxy import Network


def written(*numbers: int, tolerance_s: float = 3.0) -> tuple[Oracle, float]:
    """An oracle that knows of numbers acknowledged one second apart, and the moment of the last one."""
    oracle = Oracle(["k"], tolerance_s)
    for number in numbers:
        assert oracle.next_number("k") == number
        oracle.acknowledged("k", number, at_s=float(number))
    return oracle, float(numbers[-1])


def test_an_answer_may_miss_what_was_acknowledged_a_moment_ago() -> None:
    oracle, now_s = written(0, 1, 2, 3, 4)
    assert oracle.wrong("k", 4, now_s) is None
    assert oracle.wrong("k", 1, now_s) is None


@pytest.mark.parametrize("number", [0, None, 5])
def test_an_answer_that_is_too_old_or_made_up_is_wrong(number: int | None) -> None:
    oracle, now_s = written(0, 1, 2, 3, 4)
    assert oracle.wrong("k", number, now_s) is not None


def test_an_answer_is_held_to_the_staleness_that_it_states() -> None:
    oracle, now_s = written(0, 1, 2, 3, 4)
    assert oracle.wrong("k", 3, now_s, stated_staleness_ms=1000) is None
    assert oracle.wrong("k", 2, now_s, stated_staleness_ms=1000) is not None


class _Answering(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("content-length", "2")
        self.end_headers()
        with contextlib.suppress(OSError):  # the client has given up
            self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        return


@contextmanager
def served() -> Iterator[int]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Answering) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def asked(address: str, timeout_s: float) -> bytes:
    connection = http.client.HTTPConnection(address.removeprefix("http://"), timeout=timeout_s)
    try:
        connection.request("GET", "/")
        return connection.getresponse().read()
    finally:
        connection.close()


@pytest.mark.parametrize("directions", [{"requests": True}, {"answers": True}, {"requests": True, "answers": True}])
def test_a_cut_holds_everything_back_until_it_is_mended(directions: dict[str, bool]) -> None:
    with served() as port, Network() as network:
        proxy = network.proxy(port)
        assert asked(proxy.address, 60) == b"ok"
        proxy.cut(**directions)
        with pytest.raises(TimeoutError):
            asked(proxy.address, 0.2)
        found: list[bytes] = []
        waiting = threading.Thread(target=lambda: found.append(asked(proxy.address, 60)))
        waiting.start()
        proxy.heal()
        waiting.join()
        assert found == [b"ok"]


def test_a_slow_way_is_slow_and_no_more() -> None:
    with served() as port, Network() as network:
        proxy = network.proxy(port)
        proxy.slow_down(0.5)
        with pytest.raises(TimeoutError):
            asked(proxy.address, 0.2)
        assert asked(proxy.address, 60) == b"ok"
        proxy.heal()
        assert asked(proxy.address, 60) == b"ok"


def test_a_node_that_is_gone_closes_what_leads_to_it() -> None:
    with served() as port:
        pass
    with Network() as network, pytest.raises((http.client.HTTPException, OSError)):
        asked(network.proxy(port).address, 60)
