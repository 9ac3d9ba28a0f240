"""Tables as a task builds them, with what the task would share."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from storekeeper.serdes.timestamped import ValueAndTimestamp
from storekeeper.stores.record_context import RecordContext
from storekeeper.stores.windowed import Windowed
from storekeeper.topology.aggregator import Aggregator
from storekeeper.topology.cells import SessionCells, WindowCells
from storekeeper.topology.dropped_records import DroppedRecords
from storekeeper.topology.operators.grouped_table import Selector, TableAggregation, regrouping
from storekeeper.topology.operators.session_aggregation import SessionAggregation
from storekeeper.topology.operators.source import SourceTable
from storekeeper.topology.operators.suppress import Suppressed, SuppressedTable, TimeOrderedBuffer
from storekeeper.topology.operators.windowed_aggregation import (
    NOTHING_EMITTED_MS,
    StreamAggregation,
    WindowedAggregation,
)
from storekeeper.topology.table import Table
from storekeeper.topology.times import StreamTime
from storekeeper.topology.windows import EmitStrategy, Windows


class AsCells:
    """Any store of windows or sessions as cells: each change is written at once."""

    def __init__(self, store: Any) -> None:
        self.store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def delete(self, cell: Any) -> None:
        self.write(cell, None)


class WindowsAsCells(AsCells):
    def cell(self, key: Any, start_ms: int) -> Any:
        row = self.store.fetch_one(key, start_ms)
        value, timestamp_ms = (None, -1) if row is None else (row.value, row.timestamp_ms)
        return SimpleNamespace(key=(key, start_ms), value=value, timestamp_ms=timestamp_ms, changed=False)

    def write(self, cell: Any, value: Any, timestamp_ms: int) -> None:
        key, start_ms = cell.key
        self.store.put(key, None if value is None else ValueAndTimestamp(value, timestamp_ms), start_ms)


class SessionsAsCells(AsCells):
    def near(self, key: Any, earliest_end_ms: int, latest_start_ms: int) -> list[Any]:
        found = list(self.store.find_sessions(key, earliest_end_ms, latest_start_ms))
        return [SimpleNamespace(**session._asdict(), value=value) for session, value in found]

    def write(self, cell: Any, value: Any) -> None:
        self.store.put(cell.key, cell.start_ms, cell.end_ms, value)


CELLS: dict[type, Callable[[Any], Any]] = {WindowedAggregation: WindowsAsCells, SessionAggregation: SessionsAsCells}


def source_table(store: Any = None) -> SourceTable[Any, Any]:
    return SourceTable(store, DroppedRecords())


def over(
    kind: type[StreamAggregation[Any, Any, Any]],
    windows: Windows,
    aggregator: Aggregator[Any, Any, Any],
    store: Any,
    *,
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    stream_time: StreamTime | None = None,
    emitted_until_ms: int = NOTHING_EMITTED_MS,
) -> Any:
    """An aggregation whose `process` takes the records of one stream."""
    time = StreamTime() if stream_time is None else stream_time
    table: Any = kind(
        windows,
        aggregator,
        store if isinstance(store, WindowCells | SessionCells) else CELLS.get(kind, lambda rows: rows)(store),
        DroppedRecords(),
        time,
        context=RecordContext(),
        emit=emit,
        emitted_until_ms=emitted_until_ms,
    )
    table.process = table.adding(lambda window, total, value: aggregator.add(window, value, total), Windowed)
    return table


def suppressed_table(
    parent: Table[Any, Any],
    suppressed: Suppressed[Any],
    *,
    key_bytes: Callable[[Any], bytes],
    value_bytes: Callable[[Any], bytes],
    stream_time: StreamTime | None = None,
) -> tuple[SuppressedTable[Any, Any], TimeOrderedBuffer[Any, Any]]:
    buffer: TimeOrderedBuffer[Any, Any] = TimeOrderedBuffer(key_bytes=key_bytes, value_bytes=value_bytes)
    return SuppressedTable(parent, suppressed, buffer, stream_time or StreamTime(), RecordContext()), buffer


def grouped(
    parent: Table[Any, Any], selector: Selector, aggregator: Aggregator[Any, Any, Any], store: Any
) -> TableAggregation[Any, Any, Any]:
    """The groups of a table, without the topic between."""
    table: TableAggregation[Any, Any, Any] = TableAggregation(aggregator, store)
    parent.enable_sending_old_values(force=True)
    parent.subscribe(regrouping(selector, table.on_change, lambda key: key))
    return table
