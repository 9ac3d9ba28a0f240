"""Which node holds which store partition, from `/state/cluster`. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from state.changelog.partitioner import partition_for


@dataclass(frozen=True, slots=True)
class ClusterMap:
    """The map of one epoch.

    Attributes:
        epoch: the epoch of the assignment; empty if none is known.
        addresses: by node name, without a slash at the end.
        holders: by store and partition, the nodes that hold it, the active one first.
    """

    epoch: str
    addresses: Mapping[str, str]
    holders: Mapping[str, Sequence[Sequence[str]]]

    @classmethod
    def empty(cls) -> Self:
        """The map of a client that has not asked yet."""
        return cls("", {}, {})

    @classmethod
    def of(cls, document: Any) -> Self:
        """Reads the JSON of `/state/cluster`.

        Raises:
            KeyError, TypeError, ValueError, AttributeError: if it is something else.
        """
        addresses = {str(member["name"]): str(member["address"]).rstrip("/") for member in document["members"]}
        holders = {
            str(store): [[str(node) for node in nodes] for nodes in partitions]
            for store, partitions in document["assignment"].items()
        }
        return cls(str(document["epoch"]), addresses, holders)

    def limited_to(self, scheme: str) -> ClusterMap:
        """Only the nodes whose addresses have this scheme."""
        kept = {node: address for node, address in self.addresses.items() if urlsplit(address).scheme == scheme}
        return ClusterMap(self.epoch, kept, self.holders)

    def holders_of(self, store: str, key: bytes) -> list[str]:
        """The addresses of the nodes that hold a key, the preferred one first; none if they aren't known."""
        partitions = self.holders.get(store)
        if not partitions:
            return []
        held = partitions[partition_for(key, len(partitions))]
        return [self.addresses[node] for node in held if node in self.addresses]
