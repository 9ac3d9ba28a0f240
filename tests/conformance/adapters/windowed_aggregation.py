"""Cases of store kinds `windowed_agg` and `session_agg`."""

from __future__ import annotations

from typing import Any, ClassVar

from state.serdes.json import JsonSerde
from state.serdes.timestamped import TimestampedSerde
from state.stores.builder import StoreBuilder
from state.stores.session import SessionStore
from state.stores.window import WindowStore
from state.tables.change import TableRecord
from state.tables.emit_strategy import EmitStrategy
from state.tables.session_aggregation import SessionAggregation
from state.tables.sliding_aggregation import SlidingWindowAggregation
from state.tables.suppress import SuppressedTable, until_window_closes
from state.tables.table import KTable
from state.tables.time_ordered_buffer import windowed_key_bytes
from state.tables.windowed_aggregation import WindowedAggregation
from state.tables.windowed_table import WindowedTable
from state.tables.windows import SessionWindows, SlidingWindows, UnlimitedWindows
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

WINDOW_NAMES = {"window": {"type": "tumbling", "size": 1}}


class WindowedAggregationAdapter(Adapter):
    """Aggregations over windows, and the arithmetic of windows."""

    kinds: ClassVar[tuple[str, ...]] = ("windowed_agg", "session_agg")

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.definition = window_definition({**WINDOW_NAMES, **config}["window"])
        self.key_serde = SERDES[config.get("key_type", "utf8")]
        builder = StoreBuilder("windows", supplier=backend.supplier)
        send_old = bool(config.get("send_old"))
        if config.get("cache"):
            builder = builder.with_caching(send_old_values=send_old)
        self.store = self.opened_store(builder)
        self.table = self.aggregation()
        self.records: list[TableRecord[Any, Any]] = []
        if send_old:
            self.table.enable_sending_old_values()
        self.output().subscribe(self.records.append)

    def opened_store(self, builder: StoreBuilder) -> WindowStore[Any, Any] | SessionStore[Any, Any]:
        definition, kept_ms = self.definition, retention_ms(self.config, self.definition)
        if isinstance(definition, SessionWindows):
            return builder.session(self.key_serde, JsonSerde(), retention_ms=kept_ms)
        size_ms = 1 if isinstance(definition, UnlimitedWindows) else _size_ms(definition)
        values = TimestampedSerde(JsonSerde())
        return builder.window(self.key_serde, values, window_size_ms=size_ms, retention_ms=kept_ms)

    def aggregation(self) -> WindowedTable[Any, Any, Any] | SessionAggregation[Any, Any, Any]:
        definition, store = self.definition, self.store
        aggregator = named_aggregator(self.config)
        emit = EmitStrategy(self.config.get("emit", "update"))
        if isinstance(store, SessionStore):
            assert isinstance(definition, SessionWindows)
            return SessionAggregation(definition, aggregator, store, emit=emit)
        if isinstance(definition, SlidingWindows):
            return SlidingWindowAggregation(definition, aggregator, store, emit=emit)
        assert not isinstance(definition, SessionWindows)
        return WindowedAggregation(definition, aggregator, store, emit=emit)

    def output(self) -> KTable[Any, Any]:
        if self.config.get("suppress") is None:
            return self.table
        key_bytes = windowed_key_bytes(self.key_serde.serialize)
        return SuppressedTable(
            self.table, until_window_closes(self.definition), key_bytes=key_bytes, value_bytes=JsonSerde().serialize
        )

    def close(self) -> None:
        self.store.close()

    def do_record(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.table.process(key, value, timestamp_ms)

    def do_emitted(self) -> list[Any]:
        taken, self.records[:] = self.records.copy(), []
        return [[*record.key, record.change.new, record.timestamp_ms] for record in taken]

    def do_flush(self) -> None:
        self.store.flush()

    def do_flush_forward(self) -> list[Any]:
        self.store.flush()
        taken, self.records[:] = self.records.copy(), []
        return [[list(record.key), record.change.new, record.change.old] for record in taken]

    def do_dropped_total(self) -> int:
        return self.table.dropped.total

    def do_final_windows(self) -> list[Any]:
        self.store.flush()
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
        return [[window.start_ms, window.end_ms] for window in self.definition.windows_for(timestamp_ms)]

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
