"""The export on real Spark and Kafka."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from harness.broker import Broker
from harness.sales import sale_bytes
from harness.topics import read_topic, write_topic
from quality.hadoop_export import EXPORT
from spark_apps.hadoop_export import export_row
from spark_apps.records.invoice import parse_invoice
from spark_apps.records.masked import masked_values
from storekeeper import table_app
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.stream import StreamContext
from storekeeper.engine.table_sink.staged import StagedTable
from storekeeper.engine.table_sink.stream import open_table_stream
from storekeeper.locations import delete_tree
from tests.local_tables import local_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

TOPIC = "export-lines"
LETTERS = "hadoop_export-dlq"
APP = table_app("hadoop_export", TOPIC, EXPORT, export_row, title="Lines of a topic of its own")


class DiedError(Exception):
    """The end of the process."""


@dataclass(frozen=True)
class Export:
    """The export on topics of its own, whose batches run when they are asked for."""

    context: StreamContext
    broker: Broker

    def line(self, number: int) -> tuple[bytes, bytes]:
        line, _ = masked_values(parse_invoice(b"k", sale_bytes(InvoiceNumber=f"INV{number}")))
        return b"STR%d" % number, line

    def run(self, around: Callable[[ProcessBatch], ProcessBatch] = lambda process: process) -> None:
        sink = self.context.spec.table_sink
        assert sink is not None
        stream = open_table_stream(self.context, sink)
        query = replace(stream, process=around(stream.process)).query(self.context).start()
        try:
            query.settle(90)
        finally:
            query.stop()

    def rows(self) -> list[tuple[str, int, int]]:
        columns = ["InvoiceNumber", "_partition", "_offset"]
        rows = DeltaTable(local_table(self.context.settings, EXPORT.staged_name)).scan(columns=columns).read_all()
        return sorted(zip(*(rows[name].to_pylist() for name in columns), strict=True))

    def lines(self) -> list[tuple[int, int]]:
        return sorted((r.partition, r.offset) for r in read_topic(self.broker.bootstrap, TOPIC) if r.value != b"{")

    def letters(self) -> list[tuple[bytes | None, bytes | None]]:
        return [(r.key, r.value) for r in read_topic(self.broker.bootstrap, LETTERS)]


@pytest.fixture
def export(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> Export:
    broker.create_topic(TOPIC, 2)
    broker.create_topic(LETTERS, 1)
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap)
    checkpoint = BatchCheckpoint(settings.checkpoint_dir("hadoop_export"))
    return Export(StreamContext(APP, spark_session.sparkContext, settings, checkpoint), broker)


def die(*_: object, **__: object) -> None:
    raise DiedError


def dies_after(process: ProcessBatch) -> ProcessBatch:
    def processed(batch_id: int) -> None:
        process(batch_id)
        raise DiedError

    return processed


def test_lines_and_dead_letters_are_there_once_whatever_is_run_again(
    export: Export, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_topic(
        export.broker.bootstrap, TOPIC, [export.line(n) for n in range(20)] + [(b"bad", b"{"), (b"worse", b"{")]
    )
    with monkeypatch.context() as dying:
        dying.setattr(StagedTable, "append", die)
        with pytest.raises(DiedError):
            export.run()
    with pytest.raises(DiedError):
        export.run(dies_after)
    assert export.context.metrics.sum.replayed_tasks, "the dead letters were written before"
    export.run()
    export.broker.add_partitions(TOPIC, 4)
    lonely = [b"lonely-%d" % number for number in range(8)]
    write_topic(export.broker.bootstrap, TOPIC, [(key, b"{") for key in lonely])
    export.run()
    write_topic(export.broker.bootstrap, TOPIC, [export.line(20)])
    export.run()
    assert [name for name, *_ in export.rows()] == sorted(f"INV{number}" for number in range(21))
    assert sorted((partition, offset) for _, partition, offset in export.rows()) == export.lines()
    assert sorted(key or b"" for key, _ in export.letters()) == [b"bad", *lonely, b"worse"]
    assert {record.partition for record in read_topic(export.broker.bootstrap, TOPIC)} == {0, 1, 2, 3}
    assert DeltaTable(local_table(export.context.settings, EXPORT.staged_name)).version() == 2, (
        "poison alone makes no commit"
    )

    # An older copy of the checkpoint uses ids of batches again, for other records.
    kept, checkpoint = tmp_path / "copy", Path(str(export.context.checkpoint.path))
    shutil.copytree(checkpoint, kept)
    write_topic(export.broker.bootstrap, TOPIC, [export.line(21)])
    export.run()
    shutil.rmtree(checkpoint)
    shutil.copytree(kept, checkpoint)
    write_topic(export.broker.bootstrap, TOPIC, [export.line(22)])
    export.run()
    assert sorted((partition, offset) for _, partition, offset in export.rows()) == export.lines()

    # A new checkpoint begins with the topic; the table knows what it has.
    delete_tree(export.context.checkpoint.path)
    write_topic(export.broker.bootstrap, TOPIC, [export.line(23)])
    settings = export.context.settings.model_copy(update={"generation": 2})
    replace(export, context=replace(export.context, settings=settings)).run()
    assert sorted((partition, offset) for _, partition, offset in export.rows()) == export.lines()
