"""The nodes of `tests/node/query/cluster.py` behind real sockets: their real routes, rows written by hand."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import uvicorn

from tests.node.query.cluster import Cluster

HOUR_MS = 3_600_000
BEGAN_MS = 1_767_268_800_000
"""2026-01-01T12:00:00Z."""

REWARDS = {f"card-{number:02d}": {"CustomerCardNo": f"card-{number:02d}", "Points": number} for number in range(40)}
SCORES = {"anna": 900, "ben": 700, "cleo": 700, "dan": 100}


@dataclass(frozen=True, slots=True)
class ServedCluster:
    """Three nodes and the addresses that they answer on."""

    cluster: Cluster
    addresses: list[str]


def fill(cluster: Cluster) -> None:
    """Rows of every kind of store."""
    for key, value in REWARDS.items():
        cluster.write("rewards", key.encode(), json.dumps(value).encode())
    cluster.write("rewards", "käse/brot".encode(), b'{"Points": 12.0300}')
    cluster.write("rewards", b"\xff\x00", b"7")
    for player, score in SCORES.items():
        cluster.write("players", player.encode(), json.dumps({"Score": score}).encode())
    for hour in range(3):
        for shop in (b"s1", b"s2", b"all"):
            cluster.write_window(shop, BEGAN_MS + hour * HOUR_MS, b'{"Total": %d}' % hour)
    for visitor in (b"u1", b"u2", b"active"):
        cluster.write_session(visitor, BEGAN_MS, BEGAN_MS + 60_000, b'{"Clicks": 3}')
    for hour, price in enumerate((b"3", None, b"4.25", b"5")):
        cluster.write_version(b"shoes", BEGAN_MS + hour * HOUR_MS, price)
    cluster.write_version(b"gift", BEGAN_MS, b"null")


@contextmanager
def served_cluster(tables: Path = Path("/nonexistent")) -> Iterator[ServedCluster]:
    """Serves three nodes until the end of the block; histories are in `tables`."""
    cluster = Cluster(standbys=1, tables=tables)
    fill(cluster)
    servers: list[uvicorn.Server] = []
    sockets: list[socket.socket] = []
    for app in cluster.network.apps.values():
        config = uvicorn.Config(app, log_level="critical", lifespan="off", ws="none")
        servers.append(uvicorn.Server(config))
        sockets.append(socket.create_server(("127.0.0.1", 0), backlog=64))

    async def serve() -> None:
        await asyncio.gather(*(server.serve([one]) for server, one in zip(servers, sockets, strict=True)))

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    try:
        yield ServedCluster(cluster, [f"http://127.0.0.1:{one.getsockname()[1]}" for one in sockets])
    finally:
        for server in servers:
            server.should_exit = True
        thread.join(10)
        for one in sockets:
            one.close()


POINTS_WITH_DIGITS = Decimal("12.0300")
