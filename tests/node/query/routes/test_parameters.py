"""Every route refuses parameters that it doesn't know, by their names."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import httpx2
import pytest

from storekeeper.errors import InvalidArgumentError
from storekeeper.protocol.freshness import check_names
from tests.node.query.cluster import Cluster

CLUSTER = Cluster(nodes=("a",), partitions=1)
CLUSTER.write("rewards", b"0042", b"1")
DOCUMENT: dict[str, Any] = asyncio.run(CLUSTER.get("a", "/openapi.json")).json()
OPERATIONS = [(method.upper(), path) for path, ways in sorted(DOCUMENT["paths"].items()) for method in ways]
UNDOCUMENTED = ["/", "/page/app.js", "/docs", "/openapi.json", "/healthz"]


def ask(method: str, path: str, query: str) -> httpx2.Response:
    async def scenario() -> httpx2.Response:
        async with httpx2.AsyncClient(transport=CLUSTER.network) as client:
            target = re.sub(r"\{[^}]*\}", "0042", path.replace("{store}", "rewards"))
            return await client.request(method, f"http://a{target}?{query}", json={"keys": ["0042"]})

    return asyncio.run(scenario())


def refused(method: str, path: str, query: str) -> str:
    """Why, if it is for a parameter's name."""
    answer = ask(method, path, query)
    assert answer.status_code == 400, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    return str(answer.json()["detail"])


@pytest.mark.parametrize(("method", "path"), [*OPERATIONS, *(("GET", path) for path in UNDOCUMENTED)])
def test_an_unknown_one_is_refused_and_the_nearest_is_named(method: str, path: str) -> None:
    assert "no parameter 'limt' here" in refused(method, path, "limt=2")
    assert "did you mean deadline_ms?" in refused(method, path, "deadline_m=2")
    assert "no parameter 'deadline%5fms'" in refused(method, path, "deadline%5fms=9")
    assert "deadline_ms is given twice" in refused(method, path, "deadline_ms=900&deadline_ms=900")


@pytest.mark.parametrize(("method", "path"), OPERATIONS)
def test_a_documented_one_is_known(method: str, path: str) -> None:
    for parameter in DOCUMENT["paths"][path][method.lower()].get("parameters", ()):
        if parameter["in"] == "query":
            told = ask(method, path, f"{parameter['name']}=1").text
            assert "no parameter" not in told
            if parameter["schema"].get("type") != "array":
                twice = refused(method, path, f"{parameter['name']}=1&{parameter['name']}=1")
                assert f"{parameter['name']} is given twice" in twice


def test_what_is_answered_in_front_of_the_routes_refuses_them_too() -> None:
    hot = CLUSTER.nodes["a"].services.point.hot.now
    target = b"/state/keyvalue/rewards/0042"
    assert (hot(target) or b"").startswith(b"HTTP/1.1 200")
    assert (hot(target + b"?stale=ok&partial=ok") or b"").startswith(b"HTTP/1.1 200")
    for query in (b"limt=2", b"max_lagg=1", b"key_format=hex", b"max_lag=1&max_lag=1", b"max%5flag=1"):
        assert hot(target + b"?" + query) is None
        assert asyncio.run(CLUSTER.get("a", (target + b"?" + query).decode())).status_code == 400


def test_the_nearest_name_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match="did you mean limit"):
        check_names(b"limt=2", {"limit", "cursor"})
    with pytest.raises(InvalidArgumentError, match="did you mean cursor or limit"):
        check_names(b"x", {"limit", "cursor"})
    check_names(b"limit=2&&cursor=&key=a&key=b", {"limit", "cursor", "key"}, {"key"})
