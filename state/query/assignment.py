"""Which nodes hold which store partition: rendezvous hashing over the nodes' names.

Every node computes the same answer from the same list of names, without talking to anyone. Adding or removing a node
moves only the partitions that it gains or had.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import xxhash

from state.changelog.restore import Role
from state.errors import InvalidArgumentError


def holders(nodes: Iterable[str], store: str, partition: int, replicas: int) -> list[str]:
    """The nodes that hold a store partition, the active one first, then its standbys in the order of preference.

    At most 1 + `replicas`, fewer if there are not so many nodes.

    Raises:
        InvalidArgumentError: if there is no node.
    """
    ranked = sorted(set(nodes), key=lambda node: (_weight(node, store, partition), node), reverse=True)
    if not ranked:
        raise InvalidArgumentError("there is no node to hold anything: name at least one")
    return ranked[: 1 + replicas]


def _weight(node: str, store: str, partition: int) -> int:
    return xxhash.xxh64_intdigest(f"{node}\0{store}\0{partition}".encode())


@dataclass(frozen=True, slots=True)
class Assignment:
    """Who holds what. `partitions` is the number of partitions by store."""

    nodes: Sequence[str]
    partitions: Mapping[str, int]
    replicas: int

    def holders(self, store: str, partition: int) -> list[str]:
        """See the function of this name."""
        return holders(self.nodes, store, partition, self.replicas)

    def held_by(self, node: str) -> list[tuple[str, int, Role]]:
        """(store, partition, role) for all that `node` holds, sorted."""
        held: list[tuple[str, int, Role]] = []
        for store, count in sorted(self.partitions.items()):
            for partition in range(count):
                found = self.holders(store, partition)
                if node in found:
                    held.append((store, partition, Role.ACTIVE if found[0] == node else Role.STANDBY))
        return held
