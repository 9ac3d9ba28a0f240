"""Ties the values of a topology's topics and stores to the subjects of a schema registry.

What a topic or a changelog holds is in the registry's wire format. Records between the app's own tasks, and stores that
only their operator understands, need no registry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from storekeeper.errors import ConfigurationError
from storekeeper.schemas.bound import BoundSerde, SchemaSerde, bound_to
from storekeeper.schemas.registry import SchemaRegistry
from storekeeper.topology.operators.source import Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.plan import Topology


def bind_schemas(topology: Topology, registry: SchemaRegistry, changelogs: Mapping[str, str]) -> None:
    """Binds every serde by a schema. May be called again, with another registry. Nothing is asked yet. `changelogs` are
    the topics of the stores that have one.

    Raises:
        ConfigurationError: keys are to be written by a schema.
    """
    for node in topology.graph.nodes:
        if isinstance(node, Source | Sink) and node.topic not in topology.repartition_topics:
            _check_keys(node.topic, node.key_serde)
            node.value_serde = bound_to(node.value_serde, node.topic, registry)
        for place, spec in enumerate(node.stores):
            if spec.name in changelogs and not spec.internal:
                _check_keys(changelogs[spec.name], spec.key_serde)
                bound = bound_to(spec.value_serde, changelogs[spec.name], registry)
                node.stores[place] = replace(spec, value_serde=bound)


def written_schemas(topology: Topology) -> Iterator[BoundSerde[Any]]:
    """The serdes by a schema that the topology writes topics and changelogs with."""
    for node in topology.graph.nodes:
        sinks = [node.value_serde] if isinstance(node, Sink) else []
        for serde in (*sinks, *(spec.value_serde for spec in node.stores)):
            if isinstance(serde, BoundSerde):
                yield serde


def _check_keys(topic: str, serde: Any) -> None:
    if isinstance(serde, SchemaSerde):
        msg = f"the keys of topic {topic} can't be by a schema, as nodes look rows up by them: use text or bytes"
        raise ConfigurationError(msg)
