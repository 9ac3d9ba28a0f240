"""All nodes stand still for longer than the changelog keeps deletions: one replica at a time is rebuilt."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from harness.sigstop_pause import sigstop_pause
from harness.waiting import eventually

pytestmark = pytest.mark.broker

RETENTION_S = 6
ROWS = 60_000
"""So many that two rebuilds which begin together overlap."""


def moment(node: NodeProcess, event: str) -> str | None:
    """When a node logged an event last."""
    lines = node.events(event)
    return str(json.loads(lines[-1])["timestamp"]) if lines else None


def test_after_a_long_pause_one_replica_is_rebuilt_at_a_time(broker: Broker, tmp_path: Path) -> None:
    topic = "long-pause"
    broker.create_topic(topic, 1, {**COMPACTED, "delete.retention.ms": str(RETENTION_S * 1000)})
    write(broker, topic, ((b"k%d" % number, b"1") for number in range(ROWS)))
    nodes = make_nodes(broker, tmp_path, f"rewards={topic}", replicas=1)
    with started(nodes):
        for node in nodes:
            node.wait_ready()
        with sigstop_pause(nodes[0].pid), sigstop_pause(nodes[1].pid):
            until_s = time.monotonic() + RETENTION_S + 1
            write(broker, topic, [(b"k0", None), (b"k1", b"2")])
            eventually(lambda: time.monotonic() > until_s, RETENTION_S + 30, "deletions may be gone from the log")
        eventually(lambda: [node.value("k1") for node in nodes] == [2, 2], 120, "both answer with the new row")
        for node in nodes:
            eventually(partial(moment, node, "replica_wiped"), 120, f"{node.name} drops its rows")
            node.wait_ready()
            assert (node.value("k0"), node.value("k1")) == (None, 2)
        first, second = sorted(nodes, key=lambda node: str(moment(node, "replica_wiped")))
        whole, dropped = moment(first, "restore_ended"), moment(second, "replica_wiped")
        assert whole is not None
        assert dropped is not None
        assert whole < dropped, "the second waits until the first is whole"
