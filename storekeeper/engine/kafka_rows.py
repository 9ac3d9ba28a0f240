"""Records of a topic as rows of Spark: each task reads a partition from Kafka itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import pyarrow as pa

from storekeeper.engine.errors import task_errors
from storekeeper.engine.source_records import SourceRecords
from storekeeper.kafka.connection import Kafka
from storekeeper.topology.records import RecordFields

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MakeRows = Callable[[Sequence[RecordFields]], Iterable[pa.RecordBatch]]
"""What becomes of records of one partition, in their order."""


def kafka_rows(
    spark: SparkSession, kafka: Kafka, topic: str, ranges: Mapping[int, tuple[int, int]], *, make: MakeRows, ddl: str
) -> DataFrame:
    """A frame of the rows that are made of a topic's committed records. It is read anew each time.

    Args:
        spark: the session.
        kafka: the Kafka.
        topic: the topic.
        ranges: by partition, the first offset and that behind the last one.
        make: makes the rows. It travels to the workers.
        ddl: the rows' columns.
    """
    wanted = [SourceRecords(kafka, topic, at, *ends) for at, ends in sorted(ranges.items()) if ends[0] < ends[1]]
    count = max(1, len(wanted))
    return spark.range(0, count, 1, count).mapInArrow(partial(_rows, wanted=wanted, make=make), ddl)


@task_errors
def _rows(
    numbers: Iterable[pa.RecordBatch], *, wanted: Sequence[SourceRecords], make: MakeRows
) -> Iterator[pa.RecordBatch]:
    for number in chain.from_iterable(batch.column(0).to_pylist() for batch in numbers):
        for part in chain.from_iterable(wanted[number : number + 1]):
            yield from make(part)
