"""The thread that sends this node's heartbeats, reads the others', and reports the members."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import structlog

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import Clock
from storekeeper.node.cluster.heartbeat import (
    Heartbeat,
    HeartbeatChannel,
    HeartbeatError,
    HeartbeatRecord,
    ReplicaReport,
    opened,
    signed,
)
from storekeeper.node.cluster.rebalance_policy import RebalancePolicy
from storekeeper.node.cluster.view import Member, Members, ViewSettings
from storekeeper.node.peer_address import PeerAddressError, PeerRules, check_announced_address

log = structlog.get_logger(__name__)

_RETRY_S = 0.5
_POLL_S = 0.1
_GOODBYE_S = 2.0
_LOGGED_EVERY = 1000
_TIES = 1 << 20


@dataclass(frozen=True, slots=True)
class Identity:
    """How a node identifies itself. `address` is for the other nodes; `rack` may be empty."""

    name: str
    address: str
    rack: str = ""


@dataclass(slots=True)
class HeartbeatCounts:
    """Counts of heartbeats by outcome. Read from any thread."""

    sent: int = 0
    heard: int = 0
    refused: int = 0
    repeated: int = 0


class Membership:
    """Keeps this node a member and keeps track of the others.

    Args:
        identity: name, address and rack of this node.
        secret: the cluster's, for signatures.
        channel: carries heartbeats; used by this thread only.
        view: the members of the cluster; used by this thread only.
        settings: how often heartbeats are sent, and how long silence may last.
        clock: wall-clock time for stamps, monotonic for silence.
        rebalance: how long this node reports itself as settling when it joins. A member that comes back before it
            expires doesn't settle: it still has its partitions.
        peers: which addresses other nodes may announce.
        reports: returns the reports on this node's current replicas.
        topics: returns the ids of changelogs that this node goes by.
        on_members: called on this thread after heartbeats were heard, and about every interval, with the members and
            with those that are missing.
        on_name_taken: called when a later incarnation of a node of this name is heard: this one must stop.
    """

    def __init__(
        self,
        identity: Identity,
        *,
        secret: bytes,
        channel: HeartbeatChannel,
        view: Members,
        settings: ViewSettings,
        clock: Clock,
        rebalance: RebalancePolicy,
        peers: PeerRules,
        reports: Callable[[], Sequence[ReplicaReport]],
        topics: Callable[[], Mapping[str, str]],
        on_members: Callable[[Sequence[Member], Sequence[Member]], None],
        on_name_taken: Callable[[], None],
    ) -> None:
        self.identity = identity
        self.counts = HeartbeatCounts()
        self._secret = secret
        self._channel = channel
        self._view = view
        self._settings = settings
        self._clock = clock
        self._rebalance = rebalance
        self._peers = peers
        self._reports = reports
        self._topics = topics
        self._on_members = on_members
        self._on_name_taken = on_name_taken
        self._stop = threading.Event()
        self._leaving = threading.Event()
        self._left = threading.Event()
        self._caught_up = False
        self._incarnation = 0
        self._sequence = 0
        self._settled_at_s = 0.0
        self._refused_addresses: set[str] = set()
        self._thread = threading.Thread(target=self._run, name="membership", daemon=True)

    @property
    def heard_topics(self) -> Mapping[str, str] | None:
        """The ids of changelogs that nodes go by, this one's last start too; None until all heartbeats were read."""
        return self._view.topics if self._caught_up else None

    def start(self) -> None:
        """Starts reading heartbeats, and starts sending once the existing ones have been read."""
        self._thread.start()

    def leave(self) -> None:
        """Sends a goodbye and returns when the broker has it, or after two seconds. Others stop asking this node."""
        self._leaving.set()
        if self._thread.ident is not None:
            self._left.wait(_GOODBYE_S)

    def close(self) -> None:
        """Ends the thread. Safe to call twice."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._stop.is_set():
                try:
                    self._channel.open()
                    self._converse()
                except BrokerUnavailableError as error:
                    log.warning("membership_waits_for_broker", error=str(error))
                except Exception:
                    # If this thread ended, the node would go on serving while the others take it for dead: it retries.
                    log.exception("membership_interrupted")
                self._stop.wait(_RETRY_S)
        finally:
            self._left.set()
            self._channel.close()

    def _converse(self) -> None:
        next_beat_s = next_check_s = self._clock.monotonic_s()
        while not self._stop.is_set():
            now_s = self._clock.monotonic_s()
            if self._caught_up and now_s >= next_beat_s and not self._left.is_set():
                next_beat_s = max(next_beat_s + self._settings.interval_s, now_s + self._settings.interval_s / 2)
                self._beat()
            heard = self._hear(self._channel.read(min(_POLL_S, max(0.0, next_beat_s - now_s) or _POLL_S)))
            if self._caught_up and (heard or self._clock.monotonic_s() >= next_check_s):
                next_check_s = self._clock.monotonic_s() + self._settings.interval_s
                self._on_members(self._view.members(), self._view.missing())

    def _beat(self) -> None:
        leaving = self._leaving.is_set()
        self._sequence += 1
        heartbeat = Heartbeat(
            name=self.identity.name,
            address=self.identity.address,
            rack=self.identity.rack,
            incarnation=self._incarnation,
            sequence=self._sequence,
            sent_at_ms=self._clock.now_ms(),
            leaving=leaving,
            settling=self._clock.monotonic_s() < self._settled_at_s,
            replicas=() if leaving else tuple(self._reports()),
            topics=self._topics(),
        )
        value = heartbeat.encode()
        self._channel.send(heartbeat.name.encode(), value, signed(self._secret, value))
        self.counts.sent += 1
        if leaving:
            self._channel.flush(_GOODBYE_S)
            self._left.set()

    def _hear(self, records: Sequence[HeartbeatRecord]) -> bool:
        heard = False
        for record in records:
            if record.value is not None:
                heard |= self._hear_one(record, record.value)
        if self._channel.caught_up and not self._caught_up:
            self._begin()
        return heard

    def _begin(self) -> None:
        """Called once the existing heartbeats were read: this node's incarnation must be later than its last one."""
        # Two nodes of one name may start within the same millisecond: one of them has to be the later one.
        started = self._clock.now_ms() * _TIES + secrets.randbelow(_TIES)
        self._incarnation = max(started, self._view.order_of(self.identity.name)[0] + 1)
        self._caught_up = True
        if not self._view.was_member(self.identity.name):
            others = [member for member in self._view.members() if member.name != self.identity.name]
            self._settled_at_s = self._clock.monotonic_s() + self._rebalance.settling_s(others)
        log.info("node_joined", node=self.identity.name, incarnation=self._incarnation)

    def _hear_one(self, record: HeartbeatRecord, value: bytes) -> bool:
        try:
            heartbeat = opened(self._secret, record.key, value, record.signature)
        except HeartbeatError as error:
            if self.counts.refused % _LOGGED_EVERY == 0:
                log.warning("heartbeat_refused", error=str(error), refused_before=self.counts.refused)
            self.counts.refused += 1
            return False
        if heartbeat.name != self.identity.name:
            try:
                check_announced_address(heartbeat.address, self._peers)
            except PeerAddressError as error:
                self._refuse_address(heartbeat, error)
                return False
        age_s = 0.0 if self._caught_up else max(0.0, (self._clock.now_ms() - heartbeat.sent_at_ms) / 1000)
        if not self._view.hear(heartbeat, age_s=age_s):
            self.counts.repeated += 1
            return False
        self.counts.heard += 1
        if heartbeat.name == self.identity.name and self._caught_up:
            if heartbeat.incarnation > self._incarnation:
                log.error("node_name_taken", node=heartbeat.name, by=heartbeat.address)
                self._on_name_taken()
            elif heartbeat.incarnation == self._incarnation:
                self._view.echo(self._clock.monotonic_s())
        return True

    def _refuse_address(self, heartbeat: Heartbeat, error: PeerAddressError) -> None:
        self.counts.refused += 1
        if heartbeat.address not in self._refused_addresses and len(self._refused_addresses) < 1000:
            self._refused_addresses.add(heartbeat.address)
            log.warning("peer_address_refused", peer=heartbeat.name, error=str(error))


def static_view(peers: Mapping[str, str], identity: Identity, settings: ViewSettings) -> Members:
    """A view in which the configured peers and this node are members from the start."""
    return Members(identity.name, {**peers, identity.name: identity.address}, settings)
