"""Processors: code of the user's own with stores and timers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NoReturn, Protocol, TypeVar, overload

from storekeeper.errors import ConfigurationError, InvalidArgumentError, RejectedRecordError, UnknownStoreError
from storekeeper.stores.key_value import KeyValueStore
from storekeeper.stores.layers import StateStore
from storekeeper.stores.record_context import Header, RecordContext
from storekeeper.topology.failures import note
from storekeeper.topology.function_checks import check_function, check_kind, check_methods
from storekeeper.topology.functions import Push
from storekeeper.topology.node import GraphNode, ancestors
from storekeeper.topology.serde_checks import Serdes
from storekeeper.topology.store import Store, name_of
from storekeeper.topology.times import TimeKind, Timer, epoch_ms
from storekeeper.topology.wiring import Wiring, encoder

K = TypeVar("K")
V = TypeVar("V")
K2 = TypeVar("K2")
V2 = TypeVar("V2")
S = TypeVar("S", bound=StateStore[Any, Any])
_NO_RECORD: Any = object()
K_contra = TypeVar("K_contra", contravariant=True)
V_contra = TypeVar("V_contra", contravariant=True)


class ProcessorContext(Generic[K2, V2]):
    """What a processor may use: its stores, timers, the record's place, and the way downstream."""

    def __init__(self, wiring: Wiring, node: Process) -> None:
        self._wiring = wiring
        self._node = node
        self._forward = wiring.guards.passing(node.name, wiring.forward(node), node.encode)
        self._record = wiring.context
        self._timers = 0

    def begin(self) -> None:
        """A processor is about to be started, perhaps in the place of another one."""
        self._timers = 0

    @property
    def timestamp_ms(self) -> int:
        """The record's timestamp."""
        return self._record.timestamp_ms

    @property
    def headers(self) -> Sequence[Header]:
        """The record's headers. What a timer forwards, and windows emitted on close, have none."""
        return self._record.headers

    @property
    def place(self) -> tuple[str, int, int]:
        """Topic, partition and offset of the record; `("", ..., -1)` in a timer, and for what waited in a store.

        Behind a repartition it is the place of the record that this one comes from.
        """
        return self._wiring.origin_of((self._record.topic, self._record.partition, self._record.offset))

    @property
    def partition(self) -> int:
        """The task's partition."""
        return self._wiring.partition

    @property
    def stream_time_ms(self) -> int:
        """The greatest timestamp that the task has seen before this record, -1 if none."""
        return self._wiring.stream_time("task").now_ms

    def forward(self, key: K2, value: V2 | None, timestamp_ms: int | None = None) -> None:
        """Sends a record or a tombstone downstream. Its timestamp is that of the record under way, or `timestamp_ms`.

        Raises:
            InvalidTimestampError: the timestamp is none; see `epoch_ms`.
        """
        self._forward(key, value, self._record.timestamp_ms if timestamp_ms is None else epoch_ms(timestamp_ms))

    def dead_letter(self, reason: str) -> NoReturn:
        """Sends the record under way to the dead letters, and ends its processing: nothing of it stays in the task.

        The batch is run a second time without it, so use it for what is rare.

        Args:
            reason: why. It is written to the dead letter, and should hold nothing of the record.

        Raises:
            RejectedRecordError: always. Don't catch it.
        """
        raise RejectedRecordError(reason)

    def drop(self, reason: str) -> None:
        """Counts the record under way as left out.

        Args:
            reason: a `DropReason`, or a name of the app's own.

        Raises:
            InvalidNameError: the name is none.
        """
        self._wiring.dropped.drop(reason)

    @overload
    def store(self, store: str) -> Any: ...

    @overload
    def store(self, store: Store[V]) -> KeyValueStore[Any, V]: ...

    @overload
    def store(self, store: str | Store[Any], kind: type[S]) -> S: ...

    def store(self, store: str | Store[Any], kind: type[Any] | None = None) -> Any:
        """A store that was named in `process(stores=...)`.

        Args:
            store: its name, or what was given to `add_store`: a type checker then knows the rows.
            kind: the class of a store that is not key-value, such as `WindowStore`: a type checker then knows it.

        Raises:
            UnknownStoreError: it was not named there.
            ConfigurationError: it is of another kind.
        """
        name = name_of(store)
        self._node.require(name)
        typed = self._wiring.typed(name)
        kind_of_store = KeyValueStore if kind is None and isinstance(store, Store) else kind
        if kind_of_store is not None and not isinstance(typed, kind_of_store):
            msg = f"store {name} is a {type(typed).__name__}: ask for store({name!r}, {type(typed).__name__})"
            raise ConfigurationError(msg)
        return typed

    def schedule(self, every_ms: int, kind: TimeKind, callback: Callable[[int], None]) -> Timer:
        """Calls `callback(now_ms)` every `every_ms`. Call it in `init`, in the same order each time.

        By stream time it is called after a record. By the wall clock it is called at the end of a batch, which runs
        without records too if nothing else does, at most once a second.

        Raises:
            InvalidArgumentError: the interval is no whole number of at least 1.
            ConfigurationError: there is no such clock, or the callback takes other arguments.
        """
        check_function(f"a timer of {self._node.name}", "callback(now_ms)", callback)
        check_kind(f"a timer of {self._node.name}", kind, TimeKind, "a TimeKind")
        self._timers += 1
        guarded = self._wiring.guards.callback(self._node.name, callback)
        return self._wiring.timers.add(f"{self._node.name}-{self._timers}", every_ms, kind, guarded)


class FixedKeyContext(ProcessorContext[K2, V2]):
    """The context of `process_values`: the key stays.

    A timer has no record. It may forward keys of its own partition, such as those of the processor's stores.
    """

    def __init__(self, wiring: Wiring, node: Process) -> None:
        super().__init__(wiring, node)
        self._key: Any = _NO_RECORD

    def forward(self, key: K2, value: V2 | None, timestamp_ms: int | None = None) -> None:
        """Sends a record downstream; see `ProcessorContext.forward`.

        Raises:
            InvalidArgumentError: the key is not that of the record under way.
        """
        own = self._key
        if key is not own and own is not _NO_RECORD and (type(key) is not type(own) or key != own):
            msg = f"{self._node.name}: process_values keeps the key of a record, and can't forward another: use process"
            raise InvalidArgumentError(msg)
        super().forward(key, value, timestamp_ms)

    def fixing(self, process: Push) -> Push:
        """The processor's `process`, with its key known."""

        def push(key: Any, value: Any, timestamp_ms: int) -> None:
            self._key = key
            process(key, value, timestamp_ms)
            self._key = _NO_RECORD

        return push


class Processor(Protocol[K_contra, V_contra, K2, V2]):
    """One instance serves one task."""

    def init(self, context: ProcessorContext[K2, V2]) -> None:
        """Called once, before the first record."""
        ...

    def process(self, key: K_contra, value: V_contra, timestamp_ms: int) -> None:
        """Takes the next record."""
        ...


class Process(GraphNode):
    """A processor in a topology."""

    def __init__(
        self, parent: GraphNode, factory: Callable[[], Processor[Any, Any, Any, Any]],
        stores: Sequence[str | Store[Any]], *, serdes: Serdes, named: str | None, fixes_key: bool,
    ) -> None:  # fmt: skip
        super().__init__(
            parent.graph, "process-values" if fixes_key else "process", (parent,), named=named,
            copartitioned=bool(stores),
        )  # fmt: skip
        self.store_names = [name_of(store) for store in stores]
        self._factory = factory
        self._fixes_key = fixes_key
        self.encode = encoder(*serdes)

    def require(self, store: str) -> None:
        """Refuses a store that was not named.

        Raises:
            UnknownStoreError: it was not.
        """
        if store not in self.store_names:
            raise UnknownStoreError(f"{self.name} does not use store {store!r}: name it in stores=")

    def realise(self, wiring: Wiring) -> None:
        """Builds the processor, so that its timers run before the first record."""
        wiring.entry(self)

    def wire(self, wiring: Wiring) -> tuple[Push, ...]:
        """Builds and starts the processor of this task."""
        kind = FixedKeyContext if self._fixes_key else ProcessorContext
        context: ProcessorContext[Any, Any] = kind(wiring, self)

        def start() -> Push:
            context.begin()
            try:
                processor = self._factory()
                check_methods(self.name, processor)
                processor.init(context)
            except Exception as error:
                note(error, f"in operator {self.name}, before the first record")
                raise
            process: Push = wiring.guarded(self, processor.process)
            return process

        push = wiring.guards.renewed(self.name, start)
        if isinstance(context, FixedKeyContext):
            wiring.keep(context, "_key")
            push = context.fixing(push)
        if any(not node.replayable for node in ancestors(self) if node is not self):
            push = _at_its_time(push, wiring.context)
        return (push,)


def _at_its_time(process: Push, context: RecordContext) -> Push:
    """Below state a record may have another time than the one under way: that of a row, or of one that waited."""

    def push(key: Any, value: Any, timestamp_ms: int) -> None:
        under_way_ms, context.timestamp_ms = context.timestamp_ms, timestamp_ms
        process(key, value, timestamp_ms)
        context.timestamp_ms = under_way_ms

    return push
