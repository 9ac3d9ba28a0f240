"""Whether the rows of a task's records are where query nodes look for them: in the partition of the row's key.

A row's key is written by the source's serde. Where that is JSON, a producer may have written the same key otherwise,
with blanks for example, and so put it into another partition than other producers do.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from storekeeper.apps.errors import MisplacedKeyError
from storekeeper.engine.partitioning import partitions_of
from storekeeper.serdes.serde import BytesSerde, Int64Serde, Serde, Utf8Serde
from storekeeper.topology.records import RecordFields
from storekeeper.topology.sub_topology import SubTopology

_OF_ONE_FORM = (BytesSerde, Int64Serde, Utf8Serde)
"""Each key has one form in these."""
_CLIENTS = "Let its producers partition as Kafka's own client does (librdkafka: partitioner=murmur2_random)"
_FORM = "Let its producers write keys as the topic's serde does (JSON has no blanks, and fields are in their order)"


@dataclass(frozen=True, slots=True)
class KeyCheck:
    """Checks keys for a task.

    Attributes:
        sub: the sub-topology that the task runs.
        partition: of the task.
        count: how many tasks the sub-topology has.
        topics: whose records are checked.
    """

    sub: SubTopology
    partition: int
    count: int
    topics: Container[str]

    def __call__(self, records: Sequence[RecordFields]) -> None:
        """Refuses records whose row would be in another partition.

        Raises:
            MisplacedKeyError: a source topic is not partitioned as by Kafka's default partitioner, or has a key in
                another form than its serde's.
        """
        if self.count == 1:
            return
        checked = [source for source in self.sub.sources if source.topic in self.topics]
        plain = {source.topic for source in checked if isinstance(source.key_serde, _OF_ONE_FORM)}
        self._check(None, plain, records)  # nearly always all topics: one pass
        for source in checked:
            if source.topic not in plain:
                self._check(source.key_serde, {source.topic}, records)

    def _check(self, serde: Serde[Any] | None, topics: Container[str], records: Sequence[RecordFields]) -> None:
        records = [record for record in records if record[4] is not None and record[0] in topics]
        written = [record[4] or b"" for record in records]
        keys = written if serde is None else _as_rows_have_them(serde, written)
        found = partitions_of(keys, self.count)
        for place in np.flatnonzero(found != self.partition)[:1]:
            topic, partition, offset, *_ = records[place]
            advice = _CLIENTS if keys[place] == written[place] else _FORM
            msg = f"topic {topic} has at {partition}@{offset} a key that belongs to partition {found[place]}"
            way_out = f"{advice}, or repartition() the stream before its first store"
            raise MisplacedKeyError(f"{msg}: nodes would not find its row. {way_out}")


def _as_rows_have_them(serde: Serde[Any], written: Sequence[bytes]) -> list[bytes]:
    forms = {data: _form(serde, data) for data in set(written)}
    return [forms[data] for data in written]


def _form(serde: Serde[Any], data: bytes) -> bytes:
    try:
        return serde.serialize(serde.deserialize(data))
    except Exception:  # its source refuses the record
        return data
