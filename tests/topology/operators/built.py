"""Tables as a task builds them, with what the task would share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from storekeeper.stores.record_context import RecordContext
from storekeeper.topology.aggregator import Aggregator
from storekeeper.topology.dropped_records import DroppedRecords
from storekeeper.topology.operators.grouped_table import Selector, TableAggregation, regrouping
from storekeeper.topology.operators.source import SourceTable
from storekeeper.topology.operators.suppress import Suppressed, SuppressedTable
from storekeeper.topology.operators.time_ordered_buffer import TimeOrderedBuffer
from storekeeper.topology.operators.windowed_aggregation import NOTHING_EMITTED_MS, StreamAggregation
from storekeeper.topology.stream_time import StreamTime
from storekeeper.topology.table import Table
from storekeeper.topology.windows import EmitStrategy, Windows

Aggregation = TypeVar("Aggregation", bound=StreamAggregation[Any, Any, Any])


def source_table(store: Any = None) -> SourceTable[Any, Any]:
    return SourceTable(store, DroppedRecords())


def over(
    kind: type[Aggregation],
    windows: Windows,
    aggregator: Aggregator[Any, Any, Any],
    store: Any,
    *,
    emit: EmitStrategy = EmitStrategy.ON_WINDOW_UPDATE,
    stream_time: StreamTime | None = None,
    emitted_until_ms: int = NOTHING_EMITTED_MS,
) -> Aggregation:
    time = StreamTime() if stream_time is None else stream_time
    return kind(
        windows,
        aggregator,
        store,
        DroppedRecords(),
        time,
        context=RecordContext(),
        emit=emit,
        emitted_until_ms=emitted_until_ms,
    )


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
