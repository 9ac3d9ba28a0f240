"""Cases of store kinds `windowed_agg` and `session_agg`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from storekeeper.serdes.json import JsonSerde
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.session import SessionStore
from storekeeper.topology.operators.session_aggregation import SessionAggregation
from storekeeper.topology.operators.sliding_aggregation import SlidingWindowAggregation
from storekeeper.topology.operators.suppress import until_window_closes
from storekeeper.topology.operators.windowed_aggregation import WindowedAggregation
from storekeeper.topology.store import StoreKind
from storekeeper.topology.table import Table
from storekeeper.topology.topology_store import TopologyStore
from storekeeper.topology.windows import EmitStrategy, SessionWindows, SlidingWindows, UnlimitedWindows, WindowedSerde
from tests.conformance.adapter import SERDES, Adapter
from tests.conformance.aggregators import named_aggregator
from tests.conformance.backend import Backend
from tests.conformance.window_definitions import (
    Definition,
    bounded_window,
    checked_window,
    retention_ms,
    window_definition,
)
from tests.stores.task_store import TaskStore, store_spec
from tests.topology.operators.built import over, suppressed_table
from tests.topology.operators.observed import Observed

WINDOW_NAMES = {"window": {"type": "tumbling", "size": 1}}


class WindowedAggregationAdapter(Adapter):
    """Aggregations over windows, and the arithmetic of windows."""

    kinds: ClassVar[tuple[str, ...]] = ("windowed_agg", "session_agg")

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.definition = window_definition({**WINDOW_NAMES, **config}["window"])
        self.key_serde = SERDES[config.get("key_type", "utf8")]
        self.task = TaskStore(self.spec(), backend)
        self.table = self.aggregation()
        self.release: Callable[[], None] | None = None
        if config.get("send_old") or config.get("cache"):
            self.table.enable_sending_old_values()
        if config.get("cache") and config.get("emit", "update") == "update":
            self.release = self.table.hold_back(RecordContext())
        self.observed = Observed(self.output())

    def spec(self) -> TopologyStore:
        """The store of the windows."""
        definition, keys, values = self.definition, self.key_serde, JsonSerde()
        kept_ms = retention_ms(self.config, definition)
        if isinstance(definition, SessionWindows):
            return store_spec(StoreKind.SESSION, keys=keys, values=values, retention_ms=kept_ms)
        size_ms = 1 if isinstance(definition, UnlimitedWindows) else _size_ms(definition)
        return store_spec(
            StoreKind.WINDOW, keys=keys, values=values, retention_ms=kept_ms, window_size_ms=size_ms, timestamped=True
        )

    @property
    def store(self) -> Any:
        """What the aggregation gets."""
        return self.task.store

    def aggregation(self) -> Any:
        kinds = {SessionWindows: SessionAggregation, SlidingWindows: SlidingWindowAggregation}
        kind: Any = kinds.get(type(self.definition), WindowedAggregation)
        emit = EmitStrategy(self.config.get("emit", "update"))
        store = self.store if kind is SlidingWindowAggregation else self.task.cells()
        return over(kind, self.definition, named_aggregator(self.config), store, emit=emit)

    def output(self) -> Table[Any, Any]:
        if self.config.get("suppress") is None:
            return self.table
        key_bytes = WindowedSerde(self.key_serde).serialize
        table, _ = suppressed_table(
            self.table, until_window_closes(self.definition), key_bytes=key_bytes, value_bytes=JsonSerde().serialize
        )
        return table

    def close(self) -> None:
        self.task.close()

    def do_record(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.table.process(key, value, timestamp_ms)

    def do_emitted(self) -> list[Any]:
        return [[*key, new, timestamp_ms] for key, new, timestamp_ms in self.observed.rows()]

    def do_flush(self) -> None:
        if self.release is not None:
            self.release()
        self.task.end_batch()

    def do_flush_forward(self) -> list[Any]:
        self.do_flush()
        shows_old = bool(self.config.get("send_old"))
        return [[list(key), new, old if shows_old else None] for key, new, old in self.observed.changes()]

    def do_dropped_total(self) -> int:
        return self.table.dropped.total

    def do_final_windows(self) -> list[Any]:
        if isinstance(self.store, SessionStore):
            return [[*session, value] for session, value in self.store.fetch_range(None, None)]
        return [
            [window.key, window.start_ms, self.window_end_ms(window.start_ms), row.value]
            for window, row in self.store.all()
        ]

    def window_end_ms(self, start_ms: int) -> int:
        assert not isinstance(self.definition, SessionWindows)
        return self.definition.window_at(start_ms).end_ms

    def do_find_sessions(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> list[Any]:
        assert isinstance(self.store, SessionStore)
        found = self.store.find_sessions(key, earliest_end_ms, latest_start_ms)
        return [[*session, value] for session, value in found]

    def do_fetch_session(self, key: Any, start_ms: int, end_ms: int) -> Any:
        assert isinstance(self.store, SessionStore)
        return self.store.fetch_session(key, start_ms, end_ms)

    def do_fetch(self, key: Any) -> list[Any]:
        assert isinstance(self.store, SessionStore)
        return [[*session, value] for session, value in self.store.fetch(key)]

    def do_windows_for(self, timestamp_ms: int) -> list[list[int]]:
        assert not isinstance(self.definition, SessionWindows | SlidingWindows)
        starts = self.definition.starts_for(timestamp_ms)
        return [[start_ms, self.definition.window_at(start_ms).end_ms] for start_ms in starts]

    def do_overlap(self, kind: str, one: list[int], other: list[int]) -> bool:
        return bounded_window(kind, one).overlap(bounded_window(kind, other))

    def do_invalid_window(self, config: dict[str, Any]) -> None:
        self.do_expect_error("bad_window", ["valid_window", config])

    def do_valid_window(self, config: dict[str, Any]) -> None:
        checked_window(config)


def _size_ms(definition: Definition) -> int:
    if isinstance(definition, SlidingWindows):
        return max(1, definition.time_difference_ms)
    assert not isinstance(definition, SessionWindows | UnlimitedWindows)
    return definition.size_ms
