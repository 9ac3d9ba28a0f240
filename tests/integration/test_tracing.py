"""A trace goes through two real nodes, and their spans belong to it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.broker import Broker
from harness.node_process import COMPACTED, NodeProcess, make_nodes, started, write
from tests.test_trace_context import TRACE

pytestmark = pytest.mark.broker


@pytest.fixture
def nodes(broker: Broker, tmp_path: Path) -> list[NodeProcess]:
    broker.create_topic("traced-changelog", 4, COMPACTED)
    write(broker, "traced-changelog", [(b"k%d" % number, b"1") for number in range(20)])
    made = make_nodes(broker, tmp_path / "run", "traced=traced-changelog", replicas=0)
    for node in made:
        node.environment = {**node.environment, "OTEL_TRACES_EXPORTER": "console"}
    return made


def spans(node: NodeProcess) -> Iterator[dict[str, Any]]:
    """What the exporter wrote to the node's log: JSON objects over many lines among lines of the log."""
    text, decoder = node.log_path.read_text(), json.JSONDecoder()
    at = text.find("{\n")
    while at >= 0:
        found, end = decoder.raw_decode(text, at)
        yield found
        at = text.find("{\n", end)


def test_spans_of_a_forwarded_request_are_one_trace(nodes: list[NodeProcess]) -> None:
    asked, other = nodes
    with started(nodes):
        for node in nodes:
            node.wait_ready()
        forwarded = next(
            key
            for number in range(20)
            if asked.answer(f"/state/keyvalue/traced/{(key := f'k{number}')}").headers["storekeeper-served-by"]
            == other.name
        )
        asked.answer(f"/state/keyvalue/traced/{forwarded}", headers={"traceparent": TRACE.decode()})
        assert [node.stop() for node in nodes] == [0, 0]
    trace_id = "0x" + TRACE[3:35].decode()
    (first,) = [span for span in spans(asked) if span["context"]["trace_id"] == trace_id]
    (second,) = [span for span in spans(other) if span["context"]["trace_id"] == trace_id]
    assert first["parent_id"] == "0x" + TRACE[36:52].decode()
    assert second["parent_id"] == first["context"]["span_id"]
    assert second["attributes"]["storekeeper.asked_by"] == asked.name
