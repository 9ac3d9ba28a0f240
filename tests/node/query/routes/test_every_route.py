"""Every route that a node has, asked by those who may not: a new one can't be forgotten."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

import pytest
from fastapi import FastAPI
from starlette.routing import Route

from harness.tokens import write_callers
from storekeeper.clock import ManualClock, SystemClock
from storekeeper.node.query.protection.guard import Guard, GuardLimits
from storekeeper.node.security.access import (
    Authenticator,
    Caller,
    Role,
    TokenBook,
    new_token,
)
from storekeeper.node.security.hop import HopVerifier
from tests.node.query.cluster import Cluster
from tests.node.query.protection.test_guard import HOST, SECRET, ask, kind

CLUSTER = Cluster(nodes=("a",), partitions=1)
APP = CLUSTER.network.apps["a"]
HOT = "/state/keyvalue/{store}/{key}"
OPEN = {"/livez", "/", "/docs", "/page/{name}"}
FOR_MONITORS = {"/openapi.json", "/readyz", "/healthz", "/healthcheck", "/metrics"}
"""Routes beside `/state` and `/internal`: they must not tell of rows."""
EVERYTHING, MONITOR, OTHER_STORE = new_token(), new_token(), new_token()


def _routes() -> list[tuple[str, str]]:
    framework: FastAPI = APP._app
    found = {("GET", HOT)}
    for route in framework.routes:
        assert isinstance(route, Route), "a route of a kind that this test doesn't know"
        found |= {(method, route.path) for method in route.methods or ()}
    return sorted(found)


@pytest.fixture
def guard(tmp_path: Path) -> Guard:
    reader = frozenset({Role.READER})
    callers = {
        EVERYTHING: Caller("everything", reader),
        MONITOR: Caller("monitor", frozenset({Role.MONITOR})),
        OTHER_STORE: Caller("other", reader, frozenset({"other"})),
    }
    write_callers(tmp_path / "tokens", callers)
    authenticator = Authenticator(TokenBook(tmp_path / "tokens", ManualClock()))
    hops = HopVerifier("a", SECRET, SystemClock())
    hot = CLUSTER.nodes["a"].services.point.hot
    return Guard(APP, "a", limits=GuardLimits(), authenticator=authenticator, hops=hops, hosts=None, hot=hot)


@pytest.mark.parametrize(("method", "path"), _routes())
def test_it_is_closed_to_strangers_and_to_tokens_of_other_stores(guard: Guard, method: str, path: str) -> None:
    target = re.sub(r"\{[^}]*\}", "0", path.replace("{store}", "rewards"))

    def refused(token: str | None) -> tuple[int, str]:
        bearer = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        status, _, body = asyncio.run(ask(guard, target, [HOST, *bearer], method))
        return status, kind(body)

    line = f"{method} {target} HTTP/1.1\r\nhost: h\r\n\r\n".encode()
    assert guard.now(line) is None
    if path in OPEN:
        return
    if path.startswith("/internal/"):
        assert refused(EVERYTHING) == (403, "hop-refused")
        return
    assert refused(None) == (401, "unauthenticated")
    assert refused(new_token()) == (401, "unauthenticated")
    if "{store}" in path:
        assert path.startswith("/state/")
        assert refused(MONITOR) == refused(OTHER_STORE) == (403, "forbidden")
    else:
        assert path.startswith("/state/") or path in FOR_MONITORS
