"""The shuffle between two stages of a batch. Spark carries parcels to their tasks, and does not look into them.

Rows as Spark has them would go through Arrow, Spark's own format and back for each record, and each batch would be
planned as a query.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pyspark import RDD
from pyspark.serializers import NoOpSerializer

from storekeeper.engine.parcels import place_of

_KEY = struct.Struct("!q")


def shuffled(parcels: RDD[bytes], tasks: int) -> RDD[bytes]:
    """Parcels, each in the partition of its task.

    `RDD.partitionBy` does the same, but pickles lists of elements, however large they are. This is its other half.
    """
    keyed: Any = parcels.mapPartitions(_keyed)
    keyed._bypass_serializer = True  # noqa: SLF001 (as `partitionBy` does)
    jvm: Any = parcels.context._jvm  # noqa: SLF001 (the same)
    pairs = jvm.PairwiseRDD(keyed._jrdd.rdd()).asJavaPairRDD()  # noqa: SLF001
    placed = pairs.partitionBy(jvm.PythonPartitioner(tasks, 0))
    return RDD(jvm.PythonRDD.valueOfPair(placed), parcels.context, NoOpSerializer())


@contextmanager
def shuffle_files_deleted(dataset: RDD[Any]) -> Iterator[None]:
    """After the block, deletes the files of the shuffles before a dataset. They hold records, and Spark would keep them
    until the driver's JVM collects its garbage.
    """
    try:
        yield
    except BaseException:
        with suppress(Exception):  # the error of the block counts; perhaps the JVM is gone
            _delete_files(dataset)
        raise
    _delete_files(dataset)


def _delete_files(dataset: RDD[Any]) -> None:
    dataset._jrdd.rdd().cleanShuffleDependencies(False)  # noqa: SLF001 (as `partitionBy` does)


def _keyed(parcels: Iterable[bytes]) -> Iterator[bytes]:
    for parcel in parcels:
        yield _KEY.pack(place_of(parcel))
        yield parcel
