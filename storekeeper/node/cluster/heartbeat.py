"""Heartbeats: their content, JSON with the cluster's signature in a record header, and the topic that carries them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import msgspec
import structlog
from confluent_kafka import Message, Producer

from storekeeper.errors import InvalidArgumentError, InvalidNameError
from storekeeper.kafka.clients import new_producer
from storekeeper.kafka.connection import TIMES, Kafka
from storekeeper.names import checked_name, checked_variant, members_topic
from storekeeper.node.cluster.compacted_topic import (
    RECONNECT,
    SIGNATURE,
    WholeTopicReader,
    bytes_or_none,
    create_compacted_topic,
    signature_in,
)
from storekeeper.node.security.cluster_secret import sign, verified
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState, ReplicaStatus

_PURPOSE = "heartbeat"
_LONGEST_BYTES = 1 << 20


class HeartbeatError(InvalidArgumentError):
    """A record is not a heartbeat of this cluster. It is ignored and counted."""


class ReplicaReport(msgspec.Struct, frozen=True, array_like=True):
    """One replica as its node sees it. There are many in a heartbeat, so each is an array there.

    Attributes:
        replica: which.
        role: its role according to the node.
        state: what it is doing.
        serving: whether it answers reads.
        offset: next changelog offset to apply; None before it was opened.
        offset_lag: how many records are missing at most; None while unknown.
        staleness_ms: it holds at least all that was in the log this long ago; None while unknown.
        rows_to: the offset that its rows reach, if the log has lost records of them; None if it has all of them.
    """

    replica: ReplicaId
    role: ReplicaRole
    state: ReplicaState
    serving: bool
    offset: int | None
    offset_lag: int | None
    staleness_ms: int | None = None
    rows_to: int | None = None

    @classmethod
    def of(cls, status: ReplicaStatus, staleness_ms: int | None, rows_to: int | None) -> Self:
        """The report for a replica's status."""
        return cls(
            status.replica,
            status.role,
            status.state,
            status.serving,
            status.offset,
            status.offset_lag,
            staleness_ms,
            rows_to,
        )


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """One heartbeat.

    Attributes:
        name: the node's name.
        address: base address, http://host:port, without a slash at the end.
        rack: nodes of one rack may fail together; empty if it doesn't matter.
        incarnation: grows with each start of a node of this name.
        sequence: grows with each heartbeat of an incarnation.
        sent_at_ms: wall-clock time, epoch milliseconds.
        leaving: a goodbye: the node is no longer a member.
        settling: it has only just joined, and may soon leave again; see `storekeeper.node.cluster.rebalance_policy`.
        replicas: the replicas that it holds.
        topics: the id that it goes by for each changelog. A node that has never seen a changelog takes it from there.
    """

    name: str
    address: str
    rack: str
    incarnation: int
    sequence: int
    sent_at_ms: int
    leaving: bool = False
    settling: bool = False
    replicas: tuple[ReplicaReport, ...] = ()
    topics: Mapping[str, str] = field(default_factory=dict)

    @property
    def order(self) -> tuple[int, int]:
        """Grows with each heartbeat of a name, so that an old one that is sent again is recognised."""
        return (self.incarnation, self.sequence)

    def encode(self) -> bytes:
        """The record's value."""
        return msgspec.json.encode(self)

    @classmethod
    def decode(cls, value: bytes) -> Self:
        """Reads what `encode` wrote.

        Raises:
            HeartbeatError: if it is not a heartbeat.
        """
        if len(value) > _LONGEST_BYTES:
            raise HeartbeatError("a heartbeat is longer than 1 MiB")
        try:
            beat = msgspec.json.decode(value, type=cls)
            checked_name(beat.name)
            for report in beat.replicas:
                checked_variant(report.replica.store)
        except (msgspec.MsgspecError, UnicodeDecodeError, InvalidNameError) as error:
            raise HeartbeatError(f"a record among the heartbeats can't be read: {type(error).__name__}") from error
        return beat


def signed(secret: bytes, value: bytes) -> bytes:
    """The signature of a heartbeat's value."""
    return sign(secret, _PURPOSE, value)


def opened(secret: bytes, key: bytes | None, value: bytes, signature: bytes | None) -> Heartbeat:
    """The heartbeat in a record.

    Raises:
        HeartbeatError: the signature is not the cluster's, the value is not a heartbeat, or the key is another node's.
    """
    if signature is None or not verified(secret, _PURPOSE, value, signature):
        raise HeartbeatError("a heartbeat's signature is not this cluster's: its node has another cluster secret")
    beat = Heartbeat.decode(value)
    if key != beat.name.encode():
        raise HeartbeatError("a heartbeat lies under another node's key")
    return beat


log = structlog.get_logger(__name__)

_TIMEOUT_S = 5.0
HEARTBEAT_CONFIG = {
    "segment.ms": "60000",
    "min.cleanable.dirty.ratio": "0.1",
    # The brokers' time of a record lets a starting platform compare the clocks.
    TIMES: "LogAppendTime",
}
"""Segments close soon, so that heartbeats are compacted before they grow into gigabytes."""


@dataclass(frozen=True, slots=True)
class HeartbeatRecord:
    """A record of the topic."""

    key: bytes | None = None
    value: bytes | None = None
    signature: bytes | None = None


class HeartbeatChannel:
    """Carries heartbeats between nodes. Belongs to one thread."""

    def __init__(self, kafka: Kafka) -> None:
        self._topic = members_topic(kafka.cluster)
        self._kafka = kafka
        self._producer: Producer | None = None
        self._reader: WholeTopicReader | None = None

    def open(self) -> None:
        """Makes the topic if there is none, and begins to read it from its start.

        Raises:
            BrokerUnavailableError: no broker answers now; try again.
        """
        self.close()
        create_compacted_topic(self._kafka, self._topic, timeout_s=_TIMEOUT_S, config=HEARTBEAT_CONFIG)
        self._producer = new_producer(
            self._kafka,
            {
                "acks": "1",
                "linger.ms": 0,
                "message.timeout.ms": 1000,
                "queue.buffering.max.messages": 100,
                **RECONNECT,
            },
        )
        self._reader = WholeTopicReader(self._kafka, self._topic, "members", _TIMEOUT_S)

    def send(self, key: bytes, value: bytes, signature: bytes) -> None:
        """Sends a heartbeat, without waiting. One that can't be sent within a second is dropped."""
        if self._producer is None:
            return
        try:
            self._producer.produce(self._topic, value, key, partition=0, headers={SIGNATURE: signature})
            self._producer.poll(0)
        except BufferError:
            log.warning("heartbeat_dropped", reason="the broker takes none")
            self._producer.poll(0)

    def read(self, timeout_s: float) -> Sequence[HeartbeatRecord]:
        """Waits up to `timeout_s` for records, then takes what is there."""
        return [] if self._reader is None else [_record(message) for message in self._reader.read(timeout_s)]

    @property
    def caught_up(self) -> bool:
        """Whether all has been read that was there when it was opened."""
        return self._reader is not None and self._reader.caught_up

    def flush(self, timeout_s: float) -> None:
        """Waits until the broker has all sent heartbeats."""
        if self._producer is not None:
            self._producer.flush(timeout_s)

    def close(self) -> None:
        """Frees the clients. Safe to call twice."""
        if self._reader is not None:
            self._reader.close()
        if self._producer is not None:
            self._producer.purge()
        self._reader = self._producer = None


def _record(message: Message) -> HeartbeatRecord:
    return HeartbeatRecord(bytes_or_none(message.key()), bytes_or_none(message.value()), signature_in(message))
