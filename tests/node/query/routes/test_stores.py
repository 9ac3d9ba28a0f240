"""The description of one store."""

from __future__ import annotations

import asyncio

from storekeeper.node.replicas.ranked_index import RankedIndex
from storekeeper.protocol.replica_states import ReplicaId
from tests.node.query.cluster import Cluster


def test_a_ranked_store_is_described_while_a_ranking_is_being_built() -> None:
    async def check() -> None:
        cluster = Cluster(nodes="a", partitions=2)
        for player in range(20):
            cluster.write("players", b"%d" % player, b'{"Score": 1}')
        whole = (await cluster.get("a", "/state/stores/players")).json()
        index = cluster.nodes["a"].replicas[ReplicaId("players", 0)].index
        assert isinstance(index, RankedIndex)
        index.clear()
        assert (await cluster.get("a", "/state/ranked/players/top")).status_code == 503
        answer = await cluster.get("a", "/state/stores/players")
        assert answer.status_code == 200
        assert 0 < answer.json()["ranked_rows"] < whole["ranked_rows"] == 20
        assert answer.json()["routes"] == whole["routes"]

    asyncio.run(check())
