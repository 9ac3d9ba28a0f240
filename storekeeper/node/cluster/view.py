"""The members of the cluster, from the heartbeats heard so far. Pure: the time is passed in.

Silence is measured on a clock that advances only when this node's own heartbeats come back. While the broker is
unreachable, or this process is stopped, the clock stands still, so that no node expires for lack of heartbeats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from storekeeper.node.cluster.heartbeat import Heartbeat, ReplicaReport
from storekeeper.protocol.replica_states import ReplicaId, ReplicaState


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """How long silence may last.

    Attributes:
        interval_s: time between two heartbeats of a node.
        suspect_after_s: a node that is silent for longer is asked last.
        expire_after_s: a node that is silent for longer is no longer a member: others take over its replicas.
        missed_for_s: for how long a node is missing that is not configured and has not said goodbye.
    """

    interval_s: float = 0.25
    suspect_after_s: float = 1.0
    expire_after_s: float = 10.0
    missed_for_s: float = 86_400.0


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster.

    Attributes:
        name: its name.
        address: base address.
        rack: its rack, maybe empty.
        suspect: it has been silent for longer than `suspect_after_s`.
        settling: it has joined a moment ago.
        heard: whether a heartbeat of it was ever read; a configured peer is a member even before that.
        incarnation, sequence: of its last heartbeat; 0 if it wasn't heard.
        silent_s: for how long it has been silent.
        replicas: the reports of its last heartbeat.
        outdated_since: for each replica that it reports as OUTDATED, the number of the heartbeat that first said so,
            counted over all heartbeats read. All nodes read them in the same order, so a node that has read its own
            heartbeat knows which nodes said so before.
    """

    name: str
    address: str
    rack: str = ""
    suspect: bool = False
    settling: bool = False
    heard: bool = False
    incarnation: int = 0
    sequence: int = 0
    silent_s: float = 0.0
    replicas: Sequence[ReplicaReport] = ()
    outdated_since: Mapping[ReplicaId, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Heard:
    heartbeat: Heartbeat
    at_s: float
    outdated_since: Mapping[ReplicaId, int]


class Members:
    """The members as of the heartbeats heard. Belongs to one thread.

    `peers`, address by name, are members for the first `expire_after_s` even if unheard.

    Attributes:
        topics: the id of each changelog, as the last heartbeat that names it has it, be its node still there or not.
            Never changed in place.
    """

    def __init__(self, node: str, peers: Mapping[str, str], settings: ViewSettings) -> None:
        self._node = node
        self._peers = dict(peers)
        self._settings = settings
        self._heard: dict[str, _Heard] = {}
        self._heard_count = 0
        self._now_s = 0.0
        self._echo_at_s: float | None = None
        self.topics: Mapping[str, str] = {}

    def hear(self, heartbeat: Heartbeat, *, age_s: float = 0.0) -> bool:
        """Takes a heartbeat; False if it isn't newer than the last one of its node.

        Its signature is valid. `age_s` is how long ago it was sent, for heartbeats that are read to catch up.
        """
        known = self._heard.get(heartbeat.name)
        if known is not None and heartbeat.order <= known.heartbeat.order:
            return False
        self._heard_count += 1
        if heartbeat.topics.items() - self.topics.items():
            self.topics = {**self.topics, **heartbeat.topics}
        same_start = known is not None and known.heartbeat.incarnation == heartbeat.incarnation
        before = known.outdated_since if known is not None and same_start else {}
        outdated_since = {
            report.replica: before.get(report.replica, self._heard_count)
            for report in heartbeat.replicas
            if report.state is ReplicaState.OUTDATED
        }
        self._heard[heartbeat.name] = _Heard(heartbeat, self._now_s - age_s, outdated_since)
        return True

    def echo(self, at_s: float) -> None:
        """This node's own heartbeat came back: adds the time since the last one to the clock, two intervals at most."""
        if self._echo_at_s is not None:
            self._now_s += min(max(0.0, at_s - self._echo_at_s), 2 * self._settings.interval_s)
        self._echo_at_s = at_s

    def order_of(self, name: str) -> tuple[int, int]:
        """Incarnation and sequence of the last heartbeat of a name, (0, 0) if none was heard."""
        known = self._heard.get(name)
        return (0, 0) if known is None else known.heartbeat.order

    def was_member(self, name: str) -> bool:
        """Whether a node's last heartbeat was not a goodbye and hasn't expired."""
        known = self._heard.get(name)
        return known is not None and not known.heartbeat.leaving and not self._expired(known)

    def members(self) -> list[Member]:
        """The members, sorted by name."""
        all_members = [self._member(heard) for heard in self._heard.values()]
        members = {member.name: member for member in all_members if member is not None}
        if self._now_s <= self._settings.expire_after_s:
            for name, address in self._peers.items():
                if name not in self._heard:
                    members[name] = Member(name, address, silent_s=self._now_s)
        if self._node not in members and self._node in self._peers and not self._has_left(self._node):
            members[self._node] = Member(self._node, self._peers[self._node])
        return [members[name] for name in sorted(members)]

    def missing(self) -> list[Member]:
        """The nodes that are silent and no longer members, sorted by name. A peer that has left is missing, too."""
        absent = {
            name: Member(name, heard.heartbeat.address, heard=True, suspect=True, silent_s=self._silent_s(heard))
            for name, heard in self._heard.items()
            if self._is_missed(name, heard)
        }
        if self._now_s > self._settings.expire_after_s:
            for name in self._peers.keys() - self._heard.keys() - {self._node}:
                absent[name] = Member(name, self._peers[name], suspect=True, silent_s=self._now_s)
        return [absent[name] for name in sorted(absent)]

    def _is_missed(self, name: str, heard: _Heard) -> bool:
        if name == self._node or not self._expired(heard):
            return False
        left = heard.heartbeat.leaving
        return name in self._peers or (not left and self._silent_s(heard) <= self._settings.missed_for_s)

    def _member(self, heard: _Heard) -> Member | None:
        heartbeat = heard.heartbeat
        mine = heartbeat.name == self._node
        if heartbeat.leaving or (self._expired(heard) and not mine):
            return None
        silent_s = self._silent_s(heard)
        return Member(
            name=heartbeat.name,
            address=heartbeat.address,
            rack=heartbeat.rack,
            suspect=silent_s > self._settings.suspect_after_s and not mine,
            settling=heartbeat.settling,
            heard=True,
            incarnation=heartbeat.incarnation,
            sequence=heartbeat.sequence,
            silent_s=silent_s,
            replicas=heartbeat.replicas,
            # Reports of an earlier incarnation of this node don't count: the others know that it has ended.
            outdated_since={} if mine and self._echo_at_s is None else heard.outdated_since,
        )

    def _expired(self, heard: _Heard) -> bool:
        return self._silent_s(heard) > self._settings.expire_after_s

    def _silent_s(self, heard: _Heard) -> float:
        return max(0.0, self._now_s - heard.at_s)

    def _has_left(self, name: str) -> bool:
        heard = self._heard.get(name)
        return heard is not None and heard.heartbeat.leaving
