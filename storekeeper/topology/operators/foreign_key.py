"""The join of two tables where a row of the left one names the key of the right one.

    left table ──registration (foreign key)──> subscriptions, right table ──response (left key)──> result

A registration names the left key and the right key. The right side stores it and responds, at once and on each change
of its row. A response is dropped if the left row has changed since the registration: it carries that row's digest.
So each version of a left row gets a response, also where there is nothing to join: an earlier one may be dropped.

A left row of a window is in the partition of its key without the window, so the response goes there: it has the window
in its value.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Any, NamedTuple

import xxhash

from storekeeper.serdes.round_trip import field_names
from storekeeper.serdes.serde import BytesSerde, Serde
from storekeeper.serdes.struct import StructSerde, key_serde
from storekeeper.topology.dropped_records import DropReason
from storekeeper.topology.functions import Push
from storekeeper.topology.node import GraphNode, TableNode, joined_name
from storekeeper.topology.operators.repartition import RepartitionSink
from storekeeper.topology.operators.source import SourceTable
from storekeeper.topology.records import Change, value_of
from storekeeper.topology.serde_checks import Serdes
from storekeeper.topology.store import Store, StoreKind
from storekeeper.topology.table import Table
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.wiring import Wiring


def fingerprint(value: Any, serde: Serde[Any]) -> bytes:
    """Eight bytes that are the same for equal values of one type, in any process."""
    # A set has no order of its own: hashes of texts differ from process to process.
    has_order = not (isinstance(serde, StructSerde) and serde.holds_sets)
    return xxhash.xxh3_64_digest(serde.serialize(value) if has_order else repr(in_order(value)).encode())


def in_order(part: Any) -> Any:
    """The value in lists, the parts of each set in the order of their texts."""
    if isinstance(part, set | frozenset):
        return sorted((in_order(inner) for inner in part), key=repr)
    inner = _inner(part)
    return part if inner is None else [type(part).__name__, *map(in_order, inner)]


def _inner(part: Any) -> list[Any] | None:
    if isinstance(part, dict):
        return list(part.items())
    if isinstance(part, list | tuple):
        return list(part)
    names = field_names(type(part))
    return None if names is None else [getattr(part, name, None) for name in names]


NO_ROW = bytes(8)
WINDOW_BYTES = 16
"""The start and the end of a window, behind its key."""


class Instruction(IntEnum):
    """What a registration asks for."""

    ANSWER = 0
    FORGET = 1
    FORGET_AND_ANSWER = 2


class Message(NamedTuple):
    """A registration, whose data is the left key, or a response, whose data is the right value or None.

    The key of a response is the left key, without its window if it has one.
    """

    instruction: Instruction
    digest: bytes
    data: bytes | None
    window: bytes = b""


class MessageSerde:
    """One byte for what is asked, 8 for the digest, one for what follows: 1 data, 2 a window of 16 bytes, 3 both; the
    window, the data.
    """

    def serialize(self, value: Message) -> bytes:
        """The message's bytes."""
        follows = (value.data is not None) + 2 * bool(value.window)
        head = bytes((value.instruction,)) + value.digest + bytes((follows,))
        return head + value.window + (value.data or b"")

    def deserialize(self, data: bytes) -> Message:
        """The message."""
        start = 10 + (WINDOW_BYTES if data[9] & 2 else 0)
        return Message(Instruction(data[0]), data[1:9], data[start:] if data[9] & 1 else None, data[10:start])


class Registration(RepartitionSink):
    """Registers with the right side which of its rows a left row names."""

    def __init__(
        self, left: TableNode, foreign_key: Callable[[Any], Any], serdes: tuple[Serde[Any], Serde[Any]],
        right_keys: Serde[Any], *, windowed: bool, keeps_unmatched: bool, named: str,
    ) -> None:  # fmt: skip
        super().__init__(left, right_keys, MessageSerde(), named=f"{named}-registration", kind="registration")
        self.replayable = False
        self._foreign_key = foreign_key
        self.left_keys, self._left_values = key_serde(serdes[0]), serdes[1]
        self._keeps_unmatched = keeps_unmatched
        self._windowed = windowed
        self.response_topic = ""
        left.require_rows()

    def digest(self, wiring: Wiring) -> Callable[[Any], bytes]:
        """A function that makes the digest which identifies a version of a left row."""

        def digest(value: Any) -> bytes:
            return NO_ROW if value is None else fingerprint(value, self._left_values)

        return wiring.guarded(self, digest)

    def addressed(self, left_key: bytes, digest: bytes, data: bytes | None) -> tuple[bytes, Message]:
        """Key and value of a response."""
        end = len(left_key) - WINDOW_BYTES if self._windowed else len(left_key)
        return left_key[:end], Message(Instruction.ANSWER, digest, data, left_key[end:])

    def realise(self, wiring: Wiring) -> None:
        """Subscribes to the left table."""
        (push,) = self.wire(wiring)
        table = wiring.table(self.parents[0])
        table.enable_sending_old_values(force=True)
        answers, at = wiring.outputs_to(self.response_topic), wiring.context
        foreign_key_of, digest_of = wiring.guarded(self, self._foreign_key), self.digest(wiring)
        encode_key = wiring.guarded(self, self.left_keys.serialize)
        # Keys may be equal in Python and not on the other side.
        key_bytes = wiring.guarded(self, self.key_serde.serialize)

        def named(value: Any) -> Any:
            return None if value is None else foreign_key_of(value)

        def on_change(key: Any, change: Change[Any], timestamp_ms: int) -> None:
            old, new = named(change.old), named(change.new)
            digest, left_key = digest_of(change.new), encode_key(key)
            stays = old is not None and new is not None and key_bytes(old) == key_bytes(new)
            for foreign_key, ask in self._asked(old, new, change, stays=stays):
                if foreign_key is not None:
                    push(foreign_key, Message(ask, digest, left_key), timestamp_ms)
                    continue
                # There is no row to ask for: the answer is known.
                address, answer = self.addressed(left_key, digest, None)
                data = MessageSerde().serialize(answer)
                answers.append((address, data, timestamp_ms, at.headers, at.topic, at.partition, at.offset))
            if change.new is not None and new is None and not self._keeps_unmatched:
                wiring.dropped.drop(DropReason.NULL_KEY)

        table.subscribe(on_change)

    def _asked(self, old: Any, new: Any, change: Change[Any], *, stays: bool) -> list[tuple[Any, Instruction]]:
        if change.new is None and change.old is None:
            return []
        if new is None and old is not None and not self._keeps_unmatched:
            return [(old, Instruction.FORGET_AND_ANSWER)]
        forget = [] if old is None or stays else [(old, Instruction.FORGET)]
        return [*forget, (new, Instruction.ANSWER)]


class Subscriptions(GraphNode):
    """Stores the registrations for rows of the right table; responds to them."""

    def __init__(self, registration: Registration, right: TableNode, right_values: Serde[Any], named: str) -> None:
        super().__init__(
            right.graph, "subscriptions", (registration.source, right), named=f"{named}-subscriptions",
            copartitioned=True,
        )  # fmt: skip
        self._addressed = registration.addressed
        self._right_keys = registration.key_serde
        self._right_values = right_values
        right.require_rows()
        serde = BytesSerde()
        self._spec = self.add_store(None, "store", lambda name, options: TopologyStore(
            name, StoreKind.KEY_VALUE, serde, serde, options, internal=True))  # fmt: skip
        self.response = RepartitionSink(self, serde, MessageSerde(), named=f"{named}-response")
        registration.response_topic = self.response.topic

    def realise(self, wiring: Wiring) -> None:
        """Subscribes to the right table."""
        answer, subscribers = wiring.forward(self), wiring.typed(self._spec.name)
        table = wiring.table(self.parents[1])
        table.enable_sending_old_values(force=True)
        prefix_of, encoded = self._prefix(wiring), self._encoded(wiring)

        def on_change(key: Any, change: Change[Any], timestamp_ms: int) -> None:
            if change.new is None and change.old is None:
                return
            data = encoded(change.new)
            prefix = prefix_of(key)
            for row_key, digest in list(subscribers.prefix_scan(prefix)):
                answer(*self._addressed(row_key[len(prefix) :], digest, data), timestamp_ms)

        table.subscribe(on_change)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Takes registrations."""
        answer, subscribers = wiring.forward(self), wiring.typed(self._spec.name)
        table = wiring.table(self.parents[1])
        prefix_of, encoded = self._prefix(wiring), self._encoded(wiring)

        def push(foreign_key: Any, message: Message, timestamp_ms: int) -> None:
            left_key = message.data or b""
            forgets = message.instruction in {Instruction.FORGET, Instruction.FORGET_AND_ANSWER}
            subscribers.put(prefix_of(foreign_key) + left_key, None if forgets else message.digest)
            if message.instruction is Instruction.FORGET:
                return
            row = table.forwarded(foreign_key)
            answer_ms = timestamp_ms if row is None else max(timestamp_ms, row.timestamp_ms)
            data = None if forgets else encoded(value_of(row))
            answer(*self._addressed(left_key, message.digest, data), answer_ms)

        return (push,)

    def _prefix(self, wiring: Wiring) -> Callable[[Any], bytes]:
        encode = wiring.guarded(self, self._right_keys.serialize)

        def prefix(foreign_key: Any) -> bytes:
            data = encode(foreign_key)
            return len(data).to_bytes(4, "big") + data

        return prefix

    def _encoded(self, wiring: Wiring) -> Callable[[Any], bytes | None]:
        encode = wiring.guarded(self, self._right_values.serialize)
        return lambda value: None if value is None else encode(value)


class ForeignKeyJoin(TableNode):
    """The joined table: responses that still match the left row."""

    def __init__(
        self, left: TableNode, right: TableNode, kind: str, *, foreign_key: Callable[[Any], Any],
        joiner: Callable[[Any, Any, Any], Any], serdes: tuple[tuple[Serde[Any], Serde[Any]], ...],
        values: Serde[Any] | None, store: Store[Any] | None, windowed: bool, keeps_unmatched: bool, named: str | None,
    ) -> None:  # fmt: skip
        left_serdes, (right_keys, self._right_values) = serdes
        base = named or _base_name(left, right, kind)
        self._registration = Registration(
            left, foreign_key, left_serdes, right_keys, windowed=windowed, keeps_unmatched=keeps_unmatched, named=base
        )
        subscriptions = Subscriptions(self._registration, right, self._right_values, base)
        super().__init__(left.graph, kind, (subscriptions.response.source, left), named=base, copartitioned=True)
        self._joiner = joiner
        self._keeps_unmatched = keeps_unmatched
        self._values = values
        self._spec: TopologyStore | None = None
        self._options = store
        # Left rows without a partner get a response too: the rows of an inner join tell which need a tombstone.
        if store is not None or not keeps_unmatched:
            self.require_rows()

    def require_rows(self) -> None:
        """Gives the result a store."""
        if self._spec is None:
            serdes = Serdes(self._registration.left_keys, self._values).required(self.name)
            self._spec = self.add_rows(self._options, serdes)

    def table(self, wiring: Wiring) -> Table[Any, Any]:
        """The result, over its store if it has one."""
        return SourceTable(None if self._spec is None else wiring.rows(self._spec), wiring.dropped)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Takes responses."""
        left, result = wiring.table(self.parents[1]), wiring.table(self)
        registration, decode = self._registration, self._right_values.deserialize
        assert isinstance(result, SourceTable)  # noqa: S101 (for the type checker)
        upsert, joiner, digest_of = result.upsert, wiring.guarded(self, self._joiner), registration.digest(wiring)
        dropped = wiring.dropped

        def push(key_bytes: bytes, message: Message, timestamp_ms: int) -> None:
            key = registration.left_keys.deserialize(key_bytes + message.window)
            # The row that was registered: one whose change is held back is not yet.
            row = value_of(left.forwarded(key))
            if row is None and left.is_expired(key):
                dropped.drop(DropReason.EXPIRED_WINDOW)
                return
            if digest_of(row) != message.digest:
                return
            right = None if message.data is None else decode(message.data)
            if row is not None and (right is not None or self._keeps_unmatched):
                upsert(key, joiner(key, row, right), timestamp_ms)
            elif row is None or result.get(key) is not None:
                upsert(key, None, timestamp_ms)

        return (push,)


def _base_name(left: TableNode, right: TableNode, kind: str) -> str:
    """The name from its place, with a number where the two tables are joined so already."""
    base = joined_name(left.name, f".{kind}-{joined_name(right.name, '')}")
    names, equal = {node.name for node in left.graph.nodes}, 1
    while (name := base if equal == 1 else f"{base}-{equal}") in names:
        equal += 1
    return name
