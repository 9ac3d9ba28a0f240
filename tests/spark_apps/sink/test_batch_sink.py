"""The driver's part of the sink on a real broker, with Spark's part played: a task for each source partition."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from spark_apps.sink.batch_sink import BatchSink

from spark_apps.checkpoint import SparkCheckpoint
from spark_apps.engine.topic_rules import BY_KEY, SinkRecord
from spark_apps.settings import AppSettings
from spark_apps.spec import AppSpec
from spark_apps.stream import StreamContext
from tests.broker import Broker
from tests.integration.topics import read_topic
from tests.spark_apps.checkpoints import write_checkpoint

pytestmark = pytest.mark.broker

SOURCE, OUT = "batch-sink-in", "batch-sink-out"
APP = AppSpec("batch-sink", "Copies", __name__, sources=lambda _: (SOURCE,), sinks=lambda _: (OUT,))

MapInArrow = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass
class Frame:
    """A row in each of so many source partitions."""

    partitions: int
    task: MapInArrow | None = None

    def mapInArrow(self, task: MapInArrow, _: str) -> Frame:  # noqa: N802 (Spark's name)
        return Frame(self.partitions, task)

    def collect(self) -> list[dict[str, Any]]:
        assert self.task is not None
        rows = [pa.record_batch([pa.array([number], pa.int32())], ["partition"]) for number in range(self.partitions)]
        return [outcome for row in rows for batch in self.task(iter([row])) for outcome in batch.to_pylist()]


def copied(batches: Iterator[pa.RecordBatch]) -> Iterator[SinkRecord]:
    for batch in batches:
        for number in batch.column("partition").to_pylist():
            yield OUT, b"%d" % number, b"", None, BY_KEY


def test_a_running_sink_has_room_for_partitions_that_its_source_gets(broker: Broker, tmp_path: Path) -> None:
    for topic in (SOURCE, OUT):
        broker.create_topic(topic, 2)
    ends = [{SOURCE: dict.fromkeys(map(str, range(count)), 1)} for count in (2, 4)]
    write_checkpoint(tmp_path / "gen-1", ends, committed=1, initial=None)
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap)
    context = StreamContext(APP, cast("Any", None), settings, SparkCheckpoint(tmp_path / "gen-1"))
    sink = BatchSink(context, "records", source_slots=True)
    for batch_id, partitions in enumerate((2, 4)):
        sink.write(cast("Any", Frame(partitions)), batch_id, copied)
    assert sorted(record.key or b"" for record in read_topic(broker.bootstrap, OUT)) == [
        b"0",
        b"0",
        b"1",
        b"1",
        b"2",
        b"3",
    ]
