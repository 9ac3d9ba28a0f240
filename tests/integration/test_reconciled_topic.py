"""A topic read again from a real broker, to compare a batch with."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.broker import Broker
from harness.ports import free_ports
from harness.sales import good_sales
from harness.topics import read_topic, write_topic
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.quality.reconciliation import Topic
from storekeeper.quality.settings import QualitySettings

pytestmark = pytest.mark.broker


def test_it_reads_a_range_of_offsets(broker: Broker, tmp_path: Path) -> None:
    broker.create_topic("again-sink")
    write_topic(broker.bootstrap, "again-sink", [*good_sales(200, seed=5), (b"k", None)])
    settings = QualitySettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap)  # type: ignore[call-arg]
    records = read_topic(broker.bootstrap, "again-sink")
    topic = Topic(settings, "again-sink")
    for partition in range(4):
        there = [(r.key, r.value) for r in records if r.partition == partition]
        assert topic.first_offset(partition) == 0
        assert list(topic.read(partition, 0, len(there))) == there
        assert list(topic.read(partition, 3, len(there) - 2)) == there[3:-2]


def test_without_a_broker_nothing_is_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("storekeeper.changelog.bounded_reader.PATIENCE_S", 0.2)
    (port,) = free_ports(1)
    settings = QualitySettings(run_dir=tmp_path, kafka_bootstrap=f"127.0.0.1:{port}")  # type: ignore[call-arg]
    with pytest.raises(BrokerUnavailableError, match="can't be read"):
        Topic(settings, "again-sink").first_offset(0)
