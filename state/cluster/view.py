"""Who is in the cluster, from the heartbeats heard so far: pure, with time as what is passed in.

Silence is measured on a clock that only runs while heartbeats come through at all, this node's own among them. While
the broker is away, or this process is stopped, it stands still: nobody is thought dead because nobody can be heard.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from state.cluster.member import Heartbeat, ReplicaReport
from state.replicas.states import ReplicaId, ReplicaState


@dataclass(frozen=True, slots=True)
class ViewSettings:
    """How long silence may last.

    Attributes:
        interval_s: time between two heartbeats of a node.
        suspect_after_s: a node that is silent for longer is asked last.
        expire_after_s: a node that is silent for longer is out: others take over what it held.
    """

    interval_s: float = 0.25
    suspect_after_s: float = 1.0
    expire_after_s: float = 10.0


@dataclass(frozen=True, slots=True)
class Member:
    """A node of the cluster.

    Attributes:
        name: its name.
        address: base address.
        rack: its rack, maybe empty.
        suspect: it has been silent for a moment.
        settling: it has joined a moment ago.
        heard: whether it was ever heard; a configured peer is a member before.
        incarnation, sequence: of its last heartbeat; 0 if it wasn't heard.
        silent_s: for how long it has been silent.
        replicas: what it said last that it holds.
        outdated_since: for each replica that it says waits to be rebuilt, which of all heartbeats that were heard said
            so first. All nodes read the same topic, so a node that reads its own message knows which nodes said so
            before.
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


class ClusterView:
    """The members as of the heartbeats heard. Belongs to one thread.

    Args:
        node: this node's name.
        peers: base address by name of the nodes that are members until they had the time to be heard.
        settings: how long silence may last.
    """

    def __init__(self, node: str, peers: Mapping[str, str], settings: ViewSettings) -> None:
        self._node = node
        self._peers = dict(peers)
        self._settings = settings
        self._heard: dict[str, _Heard] = {}
        self._heard_count = 0
        self._now_s = 0.0
        self._echo_at_s: float | None = None

    def hear(self, heartbeat: Heartbeat, *, age_s: float = 0.0) -> bool:
        """Takes a heartbeat; False if it is an old one that came again.

        Args:
            heartbeat: one with a valid signature.
            age_s: how long ago it was sent, for those that were read to catch up.
        """
        known = self._heard.get(heartbeat.name)
        if known is not None and heartbeat.order <= known.heartbeat.order:
            return False
        self._heard_count += 1
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
        """This node's own heartbeat came back: the time since the one before counts, but no more than two intervals."""
        if self._echo_at_s is not None:
            self._now_s += min(max(0.0, at_s - self._echo_at_s), 2 * self._settings.interval_s)
        self._echo_at_s = at_s

    def order_of(self, name: str) -> tuple[int, int]:
        """Incarnation and sequence of the last heartbeat of a name, (0, 0) if none was heard."""
        known = self._heard.get(name)
        return (0, 0) if known is None else known.heartbeat.order

    def was_member(self, name: str) -> bool:
        """Whether a node was a member when it was heard last, and hasn't been silent for too long since."""
        known = self._heard.get(name)
        return known is not None and not known.heartbeat.leaving and not self._expired(known)

    def members(self) -> list[Member]:
        """The members, sorted by name."""
        found = [self._member(heard) for heard in self._heard.values()]
        members = {member.name: member for member in found if member is not None}
        if self._now_s <= self._settings.expire_after_s:
            for name, address in self._peers.items():
                if name not in self._heard:
                    members[name] = Member(name, address, silent_s=self._now_s)
        if self._node not in members and self._node in self._peers and not self._has_left(self._node):
            members[self._node] = Member(self._node, self._peers[self._node])
        return [members[name] for name in sorted(members)]

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
            # What an earlier start of this node said doesn't count: the others know that it is over.
            outdated_since={} if mine and self._echo_at_s is None else heard.outdated_since,
        )

    def _expired(self, heard: _Heard) -> bool:
        return self._silent_s(heard) > self._settings.expire_after_s

    def _silent_s(self, heard: _Heard) -> float:
        return max(0.0, self._now_s - heard.at_s)

    def _has_left(self, name: str) -> bool:
        heard = self._heard.get(name)
        return heard is not None and heard.heartbeat.leaving


def addresses(members: Iterable[Member]) -> dict[str, str]:
    """Base address by name."""
    return {member.name: member.address for member in members}
