"""Turns the nodes of one sub-topology into the closures and tables of one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, TypeVar

from storekeeper.errors import UnknownStoreError
from storekeeper.serdes.serde import Serde
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.stream_time import NOTHING_SEEN_MS, StoreStreamTime, TimedStore
from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.stores.ttl import TtlKeyValueStore
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.dropped_records import DroppedRecords
from storekeeper.topology.forks import Meeting, around, is_cached, meetings_of
from storekeeper.topology.functions import Push
from storekeeper.topology.guards import UNGUARDED, Encode, Guards, Shape
from storekeeper.topology.node import GraphNode, TableNode
from storekeeper.topology.records import OriginOf, Outputs
from storekeeper.topology.store import StoreKind
from storekeeper.topology.table import Table
from storekeeper.topology.task_stores import TableRows, TypedStore, opened
from storekeeper.topology.times import UNKNOWN_MS, StreamTime, Timers
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.windows import WindowedSerde

F = TypeVar("F", bound=Callable[..., Any])


class Wiring:
    """One task under construction, and what its operators share afterwards.

    Attributes:
        context: the record under way.
        guards: what stands between operators and the functions of the user.
        origin_of: finds where a record comes from.
        dropped: counts of the records that were left out.
        stores: the task's stores by name.
        timers: what is due by stream time or wall clock.
        times: stream time of each operator that has its own, by a name for it. Part of the task's progress.
        emitted: how far windows were emitted on close, by operator. Part of the task's progress.
        saves: called when a batch ends and nothing is held back any more, before changes are collected.
        undo: notes how to take changes back; None in a task that doesn't.
    """

    def __init__(
        self,
        supplier: StoreSupplier,
        progress: Mapping[str, Any],
        global_tables: Mapping[str, Callable[[Any], Any]],
        partition: int,
        guards: Guards = UNGUARDED,
        *,
        origin_of: OriginOf = lambda place: place,
    ) -> None:
        self.context = RecordContext()
        self.origin_of = origin_of
        self.guards = guards
        self.partition = partition
        self.dropped = DroppedRecords()
        self._outputs: dict[str, list[Any]] = {}
        self.stores: dict[str, TableRows[Any] | TypedStore] = {}
        self.times: dict[str, StreamTime] = {}
        self.timers = Timers(progress.get("timers", {}))
        self.emitted: dict[str, Callable[[], int]] = {}
        self.saves: list[Callable[[], None]] = []
        self.undo = guards.undo
        self.global_tables = global_tables
        self._nodes: dict[GraphNode, int] = {}
        self._meetings: dict[GraphNode, Meeting] = {}
        self._forks: dict[GraphNode, list[Meeting]] = {}
        self._releases: list[tuple[int, Callable[[], None]]] = []
        self._supplier = supplier
        self._progress = progress
        self._entries: dict[GraphNode, tuple[Push, ...]] = {}
        self._forwards: dict[GraphNode, Push] = {}
        self._tables: dict[GraphNode, Table[Any, Any]] = {}
        guards.watch(self.context, self.saves)
        self.keep(self.dropped, "counts")
        self.keep(self.timers, "dues")

    def wire(self, nodes: Sequence[GraphNode]) -> None:
        """Opens the stores and realises the nodes, in the order of their declaration."""
        self._nodes = {node: number for number, node in enumerate(nodes)}
        self._meetings, self._forks = meetings_of(nodes)
        for node in nodes:
            for spec in node.stores:
                guarded = partial(self.guards.serde, node.name)
                store = opened(spec, self._supplier, self.context, guarded, self.guards.stores)
                self.stores[spec.name] = store
                if isinstance(store, TypedStore) and isinstance(store.store, TtlKeyValueStore):
                    store.store.follow(self._under_way_ms)
        # Its rows may not show it: the last one that moved it may have been deleted.
        times = self._progress.get("times", {})
        for name, time in self._store_times():
            time.observe(times.get(name, NOTHING_SEEN_MS))
        self._settle_times()
        for node in nodes:
            node.realise(self)
        for fork, meetings in self._forks.items():
            if isinstance(fork, TableNode):
                self.table(fork).bracket(partial(around, meetings))

    def keep(self, owner: Any, *attributes: str) -> None:
        """Attributes of an operator to put back when a record is left out; see `Undo.keep`."""
        if self.undo is not None:
            self.undo.keep(owner, *attributes)

    def guarded(self, node: GraphNode, function: F, shape: Shape | None = None) -> F:
        """A function of the user, or the `serialize` of a serde, as an operator calls it; see `Guards.function`."""
        return self.guards.function(node.name, function, shape, node.on_error)

    def serde(self, node: GraphNode, serde: Serde[Any]) -> Serde[Any]:
        """A serde of what a node stores or sends to itself."""
        return self.guards.serde(node.name, serde)

    def entry(self, node: GraphNode, number: int = 0) -> Push:
        """The function that takes the records of a node's input."""
        if node not in self._entries:
            self._entries[node] = node.wire(self)
        return self._entries[node][number]

    def forward(self, node: GraphNode) -> Push:
        """The function that gives a record to all children of a stream node, in the order of declaration."""
        if node not in self._forwards:
            here = [self.entry(child, number) for child, number in node.children if child in self._nodes]
            forward = _all_of(here)
            self._forwards[node] = around(self._forks[node], forward) if node in self._forks else forward
        return self._forwards[node]

    def meeting(self, node: GraphNode) -> Meeting | None:
        """What a join must settle, if it is below a fork."""
        meeting = self._meetings.get(node)
        if meeting is not None:
            self.keep(meeting, "forks")
        if meeting is not None and meeting.held:
            self._let_go(node, lambda: meeting.settle())  # noqa: PLW0108 (the join sets it later)
        return meeting

    def table(self, node: GraphNode) -> Table[Any, Any]:
        """The table of a node."""
        if node not in self._tables:
            assert isinstance(node, TableNode)  # noqa: S101 (for the type checker)
            table = self._tables[node] = node.table(self)
            if is_cached(node):
                table.enable_sending_old_values()
                spec = node.stores[0]
                releasing = partial(self.guards.releasing, node.name, encode=encoder(spec.key_serde, spec.value_serde))
                self._let_go(node, table.hold_back(self.context, releasing, self._key_bytes(spec), self.undo))
        return self._tables[node]

    def end_batch(self) -> None:
        """Lets go what is held back, from the top of the topology to its bottom; then saves what still waits."""
        for _, release in sorted(self._releases, key=itemgetter(0)):
            release()
        for save in self.saves:
            save()
        for store in self.stores.values():
            store.evict()
        self._settle_times()

    def _settle_times(self) -> None:
        for _, time in self._store_times():
            time.settle()

    def _let_go(self, node: GraphNode, release: Callable[[], None]) -> None:
        self._releases.append((self._nodes[node], release))

    def outputs_to(self, topic: str) -> list[Any]:
        """The list that collects the outputs to a topic; see `Outputs`."""
        if topic not in self._outputs:
            self._outputs[topic] = []
            if self.undo is not None:
                self.undo.keep_length(self._outputs[topic])
        return self._outputs[topic]

    def take_outputs(self) -> Outputs:
        """The outputs since the last call."""
        batch = {topic: outputs.copy() for topic, outputs in self._outputs.items() if outputs}
        for outputs in self._outputs.values():
            outputs.clear()
        return batch

    def rows(self, spec: TopologyStore) -> TableRows[Any]:
        """The rows of a table's store."""
        store = self.stores[spec.name]
        assert isinstance(store, TableRows)  # noqa: S101 (for the type checker)
        return store

    def cells(self, spec: TopologyStore) -> Any:
        """The rows of a window, session or versioned store, for the operator that alone writes them."""
        store = self.stores[spec.name]
        assert isinstance(store, TypedStore)  # noqa: S101 (for the type checker)
        return store.cells()

    def typed(self, name: str) -> Any:
        """A store by name, as users know it.

        Raises:
            UnknownStoreError: this task has no such store.
        """
        if name not in self.stores:
            msg = f"no store {name!r} here, only {sorted(self.stores)}: name it in process(stores=...)"
            raise UnknownStoreError(msg)
        store = self.stores[name]
        return store.store if isinstance(store, TypedStore) else store

    def stream_time(self, name: str) -> StreamTime:
        """The stream time of an operator, as far as it had come."""
        if name not in self.times:
            self.times[name] = StreamTime(self._progress.get("times", {}).get(name, UNKNOWN_MS))
            self.keep(self.times[name], "now_ms")
        return self.times[name]

    def emitted_until(self, name: str) -> int:
        """How far an operator had emitted windows on close."""
        return int(self._progress.get("emitted", {}).get(name, -1))

    def _key_bytes(self, spec: TopologyStore) -> Callable[[Any], bytes]:
        """The bytes of the keys of a table's rows."""
        store = self.stores[spec.name]
        if isinstance(store, TableRows):
            return store.key_bytes
        is_windowed = spec.kind in {StoreKind.WINDOW, StoreKind.SESSION}
        return (WindowedSerde(spec.key_serde) if is_windowed else spec.key_serde).serialize

    def _under_way_ms(self) -> int:
        """The stream time of the task, with the record that is under way."""
        return max(self.stream_time("task").now_ms, self.context.timestamp_ms)

    def _store_times(self) -> Iterator[tuple[str, StoreStreamTime]]:
        """The stream times of stores whose rows live by it, under their names in the progress."""
        for name, store in self.stores.items():
            if isinstance(store, TypedStore) and isinstance(store.store, TimedStore):
                yield f"store {name}", store.store.stream_time

    def progress(self) -> dict[str, Any]:
        """What the next instance of the task needs."""
        return {
            "times": {name: time.now_ms for name, time in self.times.items()}
            | {name: time.observed_ms for name, time in self._store_times()},
            "emitted": {name: until() for name, until in self.emitted.items()},
            "timers": self.timers.due(),
        }


def encoder(keys: Serde[Any] | None, values: Serde[Any] | None) -> Encode:
    """A function that encodes a key, windowed or not, and a value; it gives None for None, or without a serde."""

    def encode(key: Any, value: Any) -> tuple[bytes | None, bytes | None]:
        known = WindowedSerde(keys) if keys is not None and isinstance(key, Windowed) else keys
        return _encoded(known, key), _encoded(values, value)

    return encode


def _encoded(serde: Serde[Any] | None, part: Any) -> bytes | None:
    return None if serde is None or part is None else serde.serialize(part)


def _all_of(pushes: Sequence[Push]) -> Push:
    if len(pushes) == 1:
        return pushes[0]
    if len(pushes) == 2:
        one, two = pushes

        def both(key: Any, value: Any, timestamp_ms: int) -> None:
            one(key, value, timestamp_ms)
            two(key, value, timestamp_ms)

        return both

    def each(key: Any, value: Any, timestamp_ms: int) -> None:
        for push in pushes:
            push(key, value, timestamp_ms)

    return each
