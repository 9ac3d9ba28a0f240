"""What a node's part in the cluster is made of."""

from __future__ import annotations

from storekeeper.node.cluster.node_runtime import rebalance_policy_of
from storekeeper.node.cluster.rebalance_policy import RebalancePolicy
from storekeeper.node.settings import NodeSettings


def test_a_configured_node_does_not_wait_and_the_store_with_the_most_standbys_tells_how_many_are_needed() -> None:
    told = {"stores": "s=t,u=v", "peers": "a=http://127.0.0.1:1", "store_replicas": "u=2", "join_delay_ms": 4000}
    settings = NodeSettings.model_validate(told)
    assert rebalance_policy_of("a", settings) == RebalancePolicy(needed=3, join_delay_s=0)
    assert rebalance_policy_of("b", settings) == RebalancePolicy(needed=3, join_delay_s=4)
