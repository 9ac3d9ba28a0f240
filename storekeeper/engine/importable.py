"""Workers find what an app is made of by its module and name, so it can't be in the script that was started."""

from __future__ import annotations

import functools
import typing
from collections.abc import Iterator
from typing import Any

from storekeeper.apps.topology_app import Describe
from storekeeper.errors import ConfigurationError
from storekeeper.schemas.bound import BoundSerde
from storekeeper.serdes.struct import StructSerde
from storekeeper.topology.operators.source import Source
from storekeeper.topology.operators.stateless import Sink
from storekeeper.topology.plan import Topology

_STARTED = "__main__"


def check_importable(app: str, describe: Describe, topology: Topology) -> None:
    """Refuses an app that is described in the script, notebook or shell that was started.

    Its types would come to the workers as others of the same name, and rows without their fields.

    Raises:
        ConfigurationError: the function that describes it, a type or a serde is in `__main__`.
    """
    for part in (describe, *_types(topology)):
        plain = part.func if isinstance(part, functools.partial) else part
        if getattr(plain, "__module__", None) == _STARTED:
            name = getattr(plain, "__qualname__", type(plain).__name__)
            raise ConfigurationError(
                f"app {app}: {name} is defined in the script or notebook that was started, where Spark's workers don't "
                "find it. Write the app into a module of its own and import it from there"
            )


def _types(topology: Topology) -> Iterator[Any]:
    nodes = [node for node in topology.graph.nodes if isinstance(node, Source | Sink)]
    pairs = [(node.key_serde, node.value_serde) for node in nodes]
    pairs += [(spec.key_serde, spec.value_serde) for node in topology.graph.nodes for spec in node.stores]
    for serde in {serde for pair in pairs for serde in pair}:
        inner = serde.inner if isinstance(serde, BoundSerde) else serde
        yield type(inner)
        yield from _parts(inner.type if isinstance(inner, StructSerde) else getattr(inner, "type_", None))


def _parts(kind: Any) -> Iterator[Any]:
    yield kind
    for part in typing.get_args(kind):
        yield from _parts(part)
