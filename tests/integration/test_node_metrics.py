"""What a node says at `/metrics` after real work is what the page of metrics, the dashboards and the rules name."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from tests.ops.observability.scraped import NODES, Scrape, documented, uses_of

pytestmark = pytest.mark.broker


@pytest.fixture(scope="module")
def node(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    """A node that has restored 100 rows, and answered and refused a query of each sort."""
    topic = "node-metrics-changelog"
    broker.create_topic(topic, config=COMPACTED)
    write(broker, topic, [(b"%04d" % number, b'{"points": %d}' % number) for number in range(100)])
    nodes = make_nodes(broker, tmp_path_factory.mktemp("node"), f"rewards={topic}:ranked:points", names=("a",))
    with started(nodes):
        nodes[0].wait_ready()
        for _ in range(3):
            assert nodes[0].value("0042") == {"points": 42}
        assert nodes[0].get("/state/keyvalues/rewards?key=0042&key=0043").status_code == 200
        assert nodes[0].get("/state/keyvalues/rewards/all").status_code == 200
        assert nodes[0].get("/state/keyvalues/rewards/all?limit=no").status_code == 400
        yield nodes[0]


@pytest.fixture(scope="module")
def told(node: NodeProcess) -> str:
    return node.get("/metrics").text


def value(told: str, series: str) -> float:
    (line,) = [line for line in told.splitlines() if line.startswith(f"{series} ")]
    return float(line.rpartition(" ")[2])


def test_every_documented_metric_is_exported_and_every_exported_one_is_documented(told: str) -> None:
    scrape, rows = Scrape(told), documented(NODES)
    assert scrape.unlike(rows) == {}
    assert scrape.undocumented(rows) == set()


def test_every_panel_and_every_rule_finds_its_series(told: str) -> None:
    asked = uses_of(documented(NODES))
    assert len(asked) > 20
    assert Scrape(told).unmet(asked) == {}


def test_rows_that_are_kept_are_told_from_rows_that_are_read(told: str) -> None:
    assert value(told, 'state_cache_lookups_total{result="miss",store="rewards"}') == 2, "0042 and 0043 once each"
    assert value(told, 'state_cache_lookups_total{result="hit",store="rewards"}') == 3


def test_restores_and_memory_are_measured(told: str) -> None:
    assert value(told, 'state_restore_seconds_count{store="rewards"}') == 4, "one a partition"
    assert value(told, 'state_restore_seconds_sum{store="rewards"}') > 0
    assert value(told, "state_rocksdb_block_cache_usage_bytes") > 0
    assert value(told, "state_rocksdb_block_cache_bound_bytes") == 256 << 20
    assert value(told, 'state_refused_requests_total{reason="invalid-argument"}') == 1
    assert value(told, 'state_refused_requests_total{reason="too-many-requests"}') == 0, "known before the first one"
