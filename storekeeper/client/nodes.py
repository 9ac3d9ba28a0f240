"""The order in which to ask nodes: holders of a key's partition, then other nodes, then failing ones. No I/O.

Holders are known from `/state/cluster`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import urlsplit

from storekeeper.changelog.partitioner import partition_for
from storekeeper.errors import InvalidArgumentError

_SUSPECT_FIRST_S = 0.5
_SUSPECT_MOST_S = 5.0
_MAP_AGE_S = 30.0
_MAP_PAUSE_S = 0.5
_QUERIES_BEFORE_MAP = 2
_HEDGE_LEAST_S = 0.05
_HEDGE_MOST_S = 1.0
_HEDGE_START_S = 0.25
_HEDGES_MOST = 20.0
_HEDGE_SHARE = 0.1


class Nodes:
    """The nodes that a client can ask: the configured ones, and those in the cluster's map.

    Not thread-safe: the client calls it under its lock.
    """

    def __init__(self, seeds: Sequence[str]) -> None:
        """Takes the addresses of some nodes, `http://host:port` or `https://host:port`.

        Raises:
            InvalidArgumentError: if there is none, or one can't be used.
        """
        self._seeds = tuple(dict.fromkeys(_checked(seed) for seed in seeds))
        if not self._seeds:
            raise InvalidArgumentError("a client needs the address of at least one node")
        self._scheme = urlsplit(self._seeds[0]).scheme
        self._addresses = list(self._seeds)
        self._map = ClusterMap.empty()
        self._map_due_s = float("-inf")
        self._map_wanted = False
        self._keyed = 0
        self._turn = 0
        self._suspects: dict[str, tuple[float, int]] = {}
        # By node, and separately for queries with and without a key.
        self._latency: dict[tuple[str, bool], LatencyEstimate] = {}
        self._hedges = _HEDGES_MOST

    @property
    def addresses(self) -> Sequence[str]:
        """The addresses of all nodes."""
        return tuple(self._addresses)

    def in_order(self, store: str, key: bytes | None, now_s: float) -> list[str]:
        """All addresses in the order to ask them: holders first, suspects last; without a key, round-robin."""
        if key is None:
            shift = self._turn % len(self._addresses)
            self._turn += 1
            order = [*self._addresses[shift:], *self._addresses[:shift]]
        else:
            self._keyed += 1
            order = list(dict.fromkeys([*self._map.holders_of(store, key), *self._addresses]))
        return sorted(order, key=lambda address: self._suspects.get(address, (0.0, 0))[0] > now_s)

    def answered(self, address: str, took_s: float, *, keyed: bool) -> None:
        """Notes that the node has answered: it isn't suspect any more."""
        self._suspects.pop(address, None)
        self._latency.setdefault((address, keyed), LatencyEstimate()).add(took_s)
        self._hedges = min(_HEDGES_MOST, self._hedges + _HEDGE_SHARE)

    def failed(self, address: str, now_s: float) -> None:
        """Notes that the node failed or was too slow: it is asked last for a time that grows with repeated failures."""
        until_s, failures = self._suspects.get(address, (0.0, 0))
        if until_s <= now_s:
            # Bounded: after 1024 failures the power would be too large for a float.
            lasts_s = min(_SUSPECT_MOST_S, _SUSPECT_FIRST_S * 2 ** min(failures, 8))
            self._suspects[address] = (now_s + lasts_s, failures + 1)
        self._map_wanted = True

    def hedge_delay_s(self, *, keyed: bool) -> float:
        """How long to wait for one node before a second one is asked too: when the fastest node would be late.

        So a slow node never counts as normal while another one is faster.
        """
        known = [latency.late_s for (_, of_keyed), latency in self._latency.items() if of_keyed is keyed]
        return min(known, default=_HEDGE_START_S)

    def may_hedge(self) -> bool:
        """Takes one of the allowed hedged requests: a tenth of all queries, and a few in a burst."""
        if self._hedges < 1:
            return False
        self._hedges -= 1
        return True

    def misdirected(self) -> None:
        """Notes that a node was asked in error: the map is out of date."""
        self._map_wanted = True

    def saw_epoch(self, epoch: str) -> None:
        """Takes the epoch in a node's answer; empty if there is none."""
        if epoch and self._map.epoch and epoch != self._map.epoch:
            self._map_wanted = True

    def take_map_due(self, now_s: float) -> bool:
        """Whether to fetch the map now. After True it is False until the map has arrived or some time has passed.

        A client that asks only one or two queries never needs it: any node finds the holder.
        """
        if self._keyed <= _QUERIES_BEFORE_MAP or now_s < self._map_due_s - (_MAP_AGE_S if self._map_wanted else 0):
            return False
        self._map_due_s = now_s + _MAP_AGE_S + _MAP_PAUSE_S
        self._map_wanted = False
        return True

    def learn(self, cluster: ClusterMap, now_s: float) -> None:
        """Takes a map. Addresses with another scheme than the first seed's are dropped: TLS is never downgraded."""
        known = cluster.limited_to(self._scheme)
        self._map = known
        self._map_due_s = now_s + _MAP_AGE_S
        self._addresses = list(dict.fromkeys([*self._seeds, *known.addresses.values()]))
        self._suspects = {
            address: suspicion for address, suspicion in self._suspects.items() if address in self._addresses
        }
        self._latency = {of: cluster for of, cluster in self._latency.items() if of[0] in self._addresses}


class LatencyEstimate:
    """When an answer is late: mean plus four mean deviations, as in TCP, within fixed bounds."""

    def __init__(self) -> None:
        self._mean_s: float | None = None
        self._deviation_s = 0.0

    def add(self, took_s: float) -> None:
        """Adds one answer's time."""
        if self._mean_s is None:
            self._mean_s, self._deviation_s = took_s, took_s / 2
            return
        self._deviation_s += (abs(took_s - self._mean_s) - self._deviation_s) / 4
        self._mean_s += (took_s - self._mean_s) / 8

    @property
    def late_s(self) -> float:
        """The time after which an answer is late."""
        if self._mean_s is None:
            return _HEDGE_START_S
        return min(_HEDGE_MOST_S, max(_HEDGE_LEAST_S, self._mean_s + 4 * self._deviation_s))


def _checked(address: str) -> str:
    parts = urlsplit(address)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.path not in {"", "/"} or parts.query:
        msg = f"the address of a node is http://host:port or https://host:port, not {address[:200]!r}"
        raise InvalidArgumentError(msg)
    if parts.username is not None or parts.password is not None:
        raise InvalidArgumentError("the address of a node holds no user name or password: give a token instead")
    return address.rstrip("/")


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
