"""Repartition: the records of one key come together in one partition of an internal topic."""

from __future__ import annotations

from typing import Any

from storekeeper.errors import ConfigurationError
from storekeeper.names import checked_name
from storekeeper.serdes.serde import Serde
from storekeeper.serdes.struct import key_serde
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.node import GraphNode, ancestors, derived_name, descendants
from storekeeper.topology.operators.source import Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.wiring import Wiring


class RepartitionSink(Sink):
    """Writes to a repartition topic. `partitions` None: as its neighbours. `forced_topic`: the user wants a topic where
    a shuffle would do. `closes_circle`: its records come back to the sub-topology that they are from.
    """

    def __init__(
        self, parent: GraphNode, keys: Serde[Any], values: Serde[Any], *, partitions: int | None = None,
        topic: str | None = None, named: str | None = None, kind: str = "repartition",
    ) -> None:  # fmt: skip
        # The reading side has the name: operators below are named after it.
        name = checked_name(named) if named is not None else derived_name(kind, (parent,))
        GraphNode.__init__(self, parent.graph, kind, (parent,), named=f"{name}-sink", replayable=True)
        if partitions is not None and (type(partitions) is not int or partitions < 1):
            raise ConfigurationError(f"{name}: partitions={partitions!r:.40} is no number of partitions: use 1 or more")
        self.partitions = partitions
        self.forced_topic = topic is not None
        self.automatic = False
        self.closes_circle = False
        self.topic = checked_name(topic or _topic(self.graph.app, name))
        self.key_serde = key_serde(keys)
        self.value_serde = values
        self.source = RepartitionSource(self, name)

    @property
    def may_be_shuffle(self) -> bool:
        """Whether Spark's shuffle may take the topic's place: all nodes before it are replayable.

        A batch goes through each sub-topology once, so what comes back to one takes a topic to the next batch.
        """
        allowed = not self.forced_topic and not self.closes_circle
        return allowed and all(node.replayable for node in ancestors(self) if node is not self)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Drops records without a key, which have no partition, unless a join below accepts them."""
        drops_null_keys = not any(getattr(node, "keeps_null_keys_of", lambda _: False)(self.source) for node in
                                  descendants(self.source))  # fmt: skip
        encode_key = wiring.guarded(self, self.key_serde.serialize)
        encode = wiring.guarded(self, self.value_serde.serialize)
        append, dropped, at = wiring.outputs_to(self.topic).append, wiring.dropped, wiring.context

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            if key is None and drops_null_keys:
                dropped.drop(DropReason.NULL_KEY)
                return
            key_bytes = None if key is None else encode_key(key)
            value_bytes = None if value is None else encode(value)
            # A `Moved`. A call that makes it would take as long as the rest.
            append((key_bytes, value_bytes, timestamp_ms, at.headers, at.topic, at.partition, at.offset))

        return (push,)


class RepartitionSource(Source):
    """Reads a repartition topic."""

    def __init__(self, sink: RepartitionSink, name: str) -> None:
        super().__init__(sink.graph, sink.topic, sink.key_serde, sink.value_serde, named=name)
        self.sink = sink


def _topic(app: str, name: str) -> str:
    return f"{app}-{name}" if name.endswith("repartition") else f"{app}-{name}-repartition"
