"""A node behind an open transaction: it answers with what it has, and never calls that fresh."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from storekeeper.changelog.partitioner import partition_for
from tests.open_transactions import begun

pytestmark = pytest.mark.broker

TOPIC, PARTITIONS, KEY = "hidden-changelog", 4, b"0001"
PATH = f"/state/keyvalue/hidden/{KEY.decode()}"
NEWEST = "?max_staleness_ms=0&wait_ms="


@pytest.fixture
def node(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    broker.create_topic(TOPIC, PARTITIONS, COMPACTED)
    write(broker, TOPIC, [(KEY, b'{"points":1}')])
    [one] = make_nodes(broker, tmp_path_factory.mktemp("hidden"), f"hidden={TOPIC}", names=["a"])
    with started([one]):
        one.wait_ready()
        yield one


def test_what_others_commit_behind_it_makes_the_rows_stale(broker: Broker, node: NodeProcess) -> None:
    assert node.get(f"{PATH}{NEWEST}10000").json()["value"] == {"points": 1}
    hanging = begun(broker, TOPIC, partition_for(KEY, PARTITIONS))
    write(broker, TOPIC, [(KEY, b'{"points":777777}')])
    for query in (f"{NEWEST}700", "?max_lag=0&wait_ms=700"):
        refused = node.get(f"{PATH}{query}")
        assert refused.status_code == 503, refused.text
        assert refused.json()["type"].rpartition(":")[2] == "too-stale"
        assert refused.json()["freshest"]["offset_lag"] == 2
    old = node.get(PATH)
    assert (old.status_code, old.json()["value"]) == (200, {"points": 1}), "who asks for no freshness is answered"
    assert int(old.headers["storekeeper-staleness-ms"]) > 0
    assert old.headers["storekeeper-offset-lag"] == "2"
    hanging.abort()
    assert node.get(f"{PATH}{NEWEST}10000").json()["value"] == {"points": 777777}
