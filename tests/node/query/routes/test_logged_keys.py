"""No key of a row is in a node's log, whatever the request meets."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
import structlog.testing

from storekeeper.node.node_log import only_places
from storekeeper.node.replicas.replica_rows import ReplicaRows
from tests.node.query.cluster import Cluster

# The key of a row, such as a card number.
SECRET = "4629185225"
PATHS = (
    *(f"/state/keyvalue/{store}/{SECRET}" for store in ("rewards", "players", "sales", "nowhere")),
    f"/state/keyvalue/rewards/{SECRET}?key_format=base64url",
    f"/state/keyvalue/rewards/{SECRET}?max_lag=x",
    f"/state/keyvalues/rewards?key={SECRET}&key=b",
    f"/state/keyvalues/rewards/range/{SECRET}/b",
    f"/state/keyvalues/rewards/prefix/{SECRET}",
    f"/state/ranked/players/rank/{SECRET}",
    f"/state/windowed/sales/{SECRET}/0/1",
    f"/state/sessions/visits/{SECRET}",
    f"/state/metadata/rewards/{SECRET}",
    f"/state/instance/rewards/{SECRET}",
    f"/state/nothing/rewards/{SECRET}",
)


def fails(*_: object, **__: object) -> Any:
    raise KeyError(SECRET)


async def asked(cluster: Cluster, path: str) -> int:
    try:
        return (await cluster.get("a", path)).status_code
    except KeyError:  # the server behind a real socket gets it after the answer
        return 500


@pytest.mark.parametrize("trouble", ["none", "a node is down", "a defect"])
def test_no_line_has_a_key(trouble: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check() -> list[int]:
        cluster = Cluster()
        for store in ("rewards", "players"):
            cluster.write(store, SECRET.encode(), b'{"Score":7}')
        if trouble == "a node is down":
            cluster.network.down.add("c")
        if trouble == "a defect":
            monkeypatch.setattr(ReplicaRows, "get", fails)
            monkeypatch.setattr(ReplicaRows, "_scan", fails)
        return [await asked(cluster, path) for path in PATHS]

    with structlog.testing.capture_logs() as lines:
        statuses = asyncio.run(check())
    assert set(statuses) >= {200, 404} if trouble == "none" else max(statuses) >= 500
    assert bool(lines) >= (trouble == "a defect"), "a defect is logged"
    shown = [json.dumps(only_places(None, "", dict(line)), default=repr) for line in lines]
    assert [line for line in shown if SECRET in line] == []
