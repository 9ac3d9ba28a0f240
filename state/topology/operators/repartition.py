"""Repartition: the records of one key come together in one partition of an internal topic."""

from __future__ import annotations

import struct
from typing import Any

from state.names import checked_name
from state.serdes.serde import Serde
from state.tables.change import Change, TableRecord
from state.tables.grouped_table import GroupedTable
from state.tables.grouped_table import Selector as TableSelector
from state.topology.functions import Push
from state.topology.node import Node, ancestors, derived_name, descendants
from state.topology.operators.source import Source
from state.topology.operators.stateless import Sink
from state.topology.wiring import Wiring

_LENGTH = struct.Struct(">i")


class RepartitionSink(Sink):
    """Writes to a repartition topic.

    Attributes:
        partitions: the number of partitions that the user sets, or None to follow its neighbours.
        forced_topic: whether the user wants a topic where a shuffle would do.
    """

    def __init__(
        self, parent: Node, keys: Serde[Any], values: Serde[Any], *, partitions: int | None = None,
        topic: str | None = None, named: str | None = None, kind: str = "repartition",
    ) -> None:  # fmt: skip
        # The reading side has the name: operators below are named after it.
        name = checked_name(named) if named is not None else derived_name(kind, (parent,))
        Node.__init__(self, parent.graph, kind, (parent,), named=f"{name}-sink", replayable=True)
        self.partitions = partitions
        self.forced_topic = topic is not None
        self.automatic = False
        self.topic = checked_name(topic or _topic(self.graph.app, name))
        self.key_serde = keys
        self.value_serde = values
        self.keeps_null_keys = False
        self.source = RepartitionSource(self, name)

    @property
    def may_be_shuffle(self) -> bool:
        """Whether Spark's shuffle may take the topic's place: all nodes before it are replayable."""
        return not self.forced_topic and all(node.replayable for node in ancestors(self) if node is not self)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Drops records without a key, which have no partition, unless a join below accepts them."""
        self.keeps_null_keys = any(getattr(node, "keeps_null_keys_of", lambda _: False)(self.source) for node in
                                   descendants(self.source))  # fmt: skip
        return super().wire(wiring)


class RepartitionSource(Source):
    """Reads a repartition topic."""

    def __init__(self, sink: RepartitionSink, name: str) -> None:
        super().__init__(sink.graph, sink.topic, sink.key_serde, sink.value_serde, named=name)
        self.sink = sink


class GroupTableSink(RepartitionSink):
    """Writes a table's changes under their groups' keys, old value and new."""

    def __init__(
        self, parent: Node, keys: Serde[Any], values: Serde[Any], selector: TableSelector[Any, Any, Any, Any],
        *, named: str | None,
    ) -> None:  # fmt: skip
        super().__init__(parent, keys, ChangeSerde(values), named=named, kind="group-by")
        self.replayable = False
        self._selector = selector

    def realise(self, wiring: Wiring) -> None:
        """Subscribes to the table above."""
        (push,) = self.wire(wiring)

        def forward(record: TableRecord[Any, Any]) -> None:
            push(record.key, record.change, record.timestamp_ms)

        GroupedTable(wiring.table(self.parents[0]), self._selector).subscribe(forward)


class ChangeSerde:
    """A change of a row: the length of the new value, or -1 for none, 4 bytes big-endian; the new value; then the old
    value with a 0x01 in front, or nothing.
    """

    def __init__(self, values: Serde[Any]) -> None:
        self._values = values

    def serialize(self, value: Change[Any]) -> bytes:
        """The change's bytes."""
        new = None if value.new is None else self._values.serialize(value.new)
        old = b"" if value.old is None else b"\x01" + self._values.serialize(value.old)
        return _LENGTH.pack(-1 if new is None else len(new)) + (new or b"") + old

    def deserialize(self, data: bytes) -> Change[Any]:
        """The change."""
        (length,) = _LENGTH.unpack_from(data)
        end = _LENGTH.size + max(length, 0)
        new = None if length < 0 else self._values.deserialize(data[_LENGTH.size : end])
        return Change(new, self._values.deserialize(data[end + 1 :]) if len(data) > end else None)


def _topic(app: str, name: str) -> str:
    return f"{app}-{name}" if name.endswith("repartition") else f"{app}-{name}-repartition"
