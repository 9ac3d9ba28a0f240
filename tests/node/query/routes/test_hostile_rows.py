"""Rows whose keys or values are not as their store's kind wants them: what can be read is served beside them."""

from __future__ import annotations

import asyncio
import struct

import pytest

from storekeeper.protocol.replica_states import ReplicaId
from tests.node.query.cluster import Cluster

HOSTILE_KEYS = [
    b"",
    b"\0",
    b"k",
    b"k\0",
    b"k\0" + b"\xff" * 12,
    b"k\0" + b"\xff" * 16,
    b"k\0" + struct.pack(">QI", 2**63, 0),
    b"k\0" + struct.pack(">QQ", 2**63 + 5, 7),
    b"k\0" + b"\x7f" + b"\xff" * 11,
    b"a\0\0\0" + b"\0" * 12,
    b"good\0" + struct.pack(">Q", 2**63 + 5),
    b"good\0" + b"\0" * 20,
    b"good\0\x7f\xff",
    b"\xff" * 40,
]
FORMATS = ("application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream")


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """One row as it should be in each store, and hostile ones beside it."""
    made = Cluster(nodes="a", partitions=1)
    made.write_window(b"good", 1000, b'{"n":1}')
    made.write_session(b"good", 1000, 2000, b'{"n":1}')
    made.write("rewards", b"good", b'{"n":1}')
    made.write("players", b"good", b'{"n":1,"Score":7}')
    made.write_version(b"good", 1000, b'{"n":1}')
    for store in ("sales", "visits", "rewards", "players", "prices"):
        for key in HOSTILE_KEYS:
            made.write_to(ReplicaId(store, 0), key, b"\xff\0")
    return made


@pytest.mark.parametrize("accepted", FORMATS)
@pytest.mark.parametrize(
    "path",
    [
        "/state/windowed/sales/good/0/5000",
        "/state/windowed/sales/all/0/9223372036854775807",
        "/state/sessions/visits/good",
        "/state/sessions/visits/active?at_ms=2000&gap_ms=1000",
        "/state/sessions/visits/ended/0/9223372036854775807",
        "/state/keyvalues/rewards/all",
        "/state/keyvalues/players/all",
        "/state/ranked/players/top",
        "/state/ranked/players/rank/good",
        "/state/keyvalue/prices/good",
        "/state/versions/prices/good",
    ],
)
def test_rows_that_can_not_be_read_stop_no_answer(cluster: Cluster, path: str, accepted: str) -> None:
    answer = asyncio.run(cluster.get("a", path, accept=accepted))
    assert answer.status_code == 200
    assert b"good" in answer.content
    assert answer.headers.get("storekeeper-complete", "true") == "true"
    assert b"urn:storekeeper:problem" not in answer.content


def test_a_rows_hostile_neighbours_are_counted_as_unranked(cluster: Cluster) -> None:
    details = asyncio.run(cluster.get("a", "/state/stores/players")).json()
    assert (details["ranked_rows"], details["unranked_rows"]) == (1, len(HOSTILE_KEYS))
