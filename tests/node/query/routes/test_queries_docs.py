"""The examples of docs/reference/http-api.md, asked of a node; and every route of the node is told there."""

from __future__ import annotations

import asyncio
import json
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.node.query.cluster import Cluster

TEXT = (Path(__file__).parents[4] / "docs" / "reference" / "http-api.md").read_text()
EXAMPLES = re.findall(r"```http\nGET (\S+)\n(.*?)```", TEXT, re.DOTALL)
STORES = (
    "rewards=rewards-changelog,players=players-changelog:ranked:HighScore,"
    "sales=sales-changelog:window,visits=visits-changelog:session,prices=prices-changelog:versioned"
)


def _exact(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    made = Cluster(nodes="a", partitions=2, stores=STORES, addresses={"a": "http://127.0.0.1:18101"})
    for key, points in (("0041", "7"), ("0042", "12.0300"), ("0043", "3"), ("0050", "1")):
        made.write("rewards", key.encode(), b'{"TotalLoyaltyPoints": %b}' % points.encode())
    for key, score in (("anna", "450.5"), ("bob", "450.5"), ("carol", "900"), ("dave", "20"), ("eve", "null")):
        made.write("players", key.encode(), b'{"HighScore": %b}' % score.encode())
    for store, start_ms, total in ((b"store-7", 0, 10), (b"store-7", 60000, 12), (b"store-8", 60000, 5)):
        made.write_window(store, start_ms, b'{"total": %d}' % total)
    made.write_session(b"anna", 1000, 4000, b'{"clicks": 3}')
    made.write_session(b"anna", 90000, 95000, b'{"clicks": 2}')
    for at_ms, price in ((1000, b"3"), (5000, b"4")):
        made.write_version(b"shoes", at_ms, price)
    return made


@pytest.mark.parametrize(("path", "answer"), EXAMPLES, ids=[path for path, _ in EXAMPLES])
def test_an_example_is_answered_as_it_stands(cluster: Cluster, path: str, answer: str) -> None:
    found = asyncio.run(cluster.get("a", path))
    assert _exact(found.text) == _exact(answer)


def test_every_route_is_told(cluster: Cluster) -> None:
    described = asyncio.run(cluster.get("a", "/openapi.json")).json()["paths"]
    missing = [path for path in described if path not in TEXT]
    assert missing == []
