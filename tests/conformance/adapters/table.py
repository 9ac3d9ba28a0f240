"""Cases of store kind `ktable`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, ClassVar

from storekeeper.serdes.json import JsonSerde
from storekeeper.stores.record_context import RecordContext
from storekeeper.topology.operators.derived_table import FilteredTable, MappedTable
from storekeeper.topology.operators.grouped_table import TableAggregation
from storekeeper.topology.records import Change
from storekeeper.topology.table import Table
from tests.conformance.adapter import SERDES, Adapter, UnsupportedCaseError
from tests.conformance.aggregators import named_aggregator
from tests.conformance.backend import Backend
from tests.stores.task_store import TaskStore, store_spec
from tests.topology.operators.built import grouped, source_table
from tests.topology.operators.observed import Observed

PREDICATES: dict[str, Callable[[Any, Any], bool]] = {
    "even": lambda _key, value: value % 2 == 0,
    "odd": lambda _key, value: value % 2 == 1,
    "not_even": lambda _key, value: value % 2 == 1,
    "positive": lambda _key, value: value > 0,
    "accept": lambda _key, value: value == "accept",
}
MAPPERS: dict[str, Callable[[Any, Any], Any]] = {
    "int": lambda _key, value: int(value),
    "to_int": lambda _key, value: int(value),
    "negate": lambda _key, value: -int(value),
    "length": lambda _key, value: len(value),
    "upper": lambda _key, value: value.upper(),
    "double": lambda _key, value: value * 2,
}
SELECTORS: dict[str, Callable[[Any, Any], tuple[Any, Any]]] = {
    "key": lambda key, value: (key, value),
    "value": lambda key, value: (value, value),
    "swap": lambda key, value: (value, key),
}


def _known(table: dict[str, Any], name: str) -> Any:
    if name not in table:
        msg = f"unknown function {name}"
        raise UnsupportedCaseError(msg)
    return table[name]


def _key_matches(pattern: str) -> Callable[[Any, Any], bool]:
    compiled = re.compile(pattern)
    return lambda key, _value: compiled.fullmatch(key) is not None


def _negated(predicate: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    return lambda key, value: not predicate(key, value)


class TableAdapter(Adapter):
    """A source table, what its config derives from it, and what that emits."""

    kinds: ClassVar[tuple[str, ...]] = ("ktable",)

    def __init__(self, config: dict[str, Any], backend: Backend) -> None:
        super().__init__(config, backend)
        self.tasks: list[TaskStore] = []
        self.releases: list[Callable[[], None]] = []
        derives = {"filter", "filter_not", "map", "map_values"} & config.keys()
        aggregates = "agg" in config or "group_by" in config
        # What is derived has a store of its own, so that only `send_old` decides about old values.
        has_store = aggregates or not derives
        self.source = source_table(self._store() if has_store else None)
        if has_store:
            self._cached(self.source)
        self.table = self._derived(self.source)
        if aggregates:
            selector = _known(SELECTORS, config.get("group_by", "key"))
            self.table = self._cached(grouped(self.table, selector, named_aggregator(config), self._store()))
        if config.get("send_old"):
            self.table.enable_sending_old_values(force=True)
        self.observed = Observed(self.table)

    def _store(self) -> Any:
        keys = SERDES[self.config.get("key_type", "utf8")]
        spec = store_spec(name=f"table-{len(self.tasks)}", keys=keys, values=JsonSerde(), timestamped=True)
        self.tasks.append(TaskStore(spec, self.backend))
        return self.tasks[-1].store

    def _cached(self, table: Table[Any, Any]) -> Table[Any, Any]:
        if self.config.get("cache"):
            table.enable_sending_old_values()
            self.releases.append(table.hold_back(RecordContext()))
        return table

    def _derived(self, table: Table[Any, Any]) -> Table[Any, Any]:
        for kind in ("filter", "filter_not"):
            if kind in self.config:
                wanted = self.config[kind]
                predicate = _key_matches(wanted["regex"]) if isinstance(wanted, dict) else _known(PREDICATES, wanted)
                derived = predicate if kind == "filter" else _negated(predicate)
                table = self._cached(FilteredTable(table, derived, self._store()))
        for kind in ("map", "map_values"):
            if kind in self.config:
                table = self._cached(MappedTable(table, _known(MAPPERS, self.config[kind]), self._store()))
        return table

    def close(self) -> None:
        for task in self.tasks:
            task.close()

    def do_upsert(self, key: Any, value: Any, timestamp_ms: int) -> None:
        self.source.upsert(key, value, timestamp_ms)

    def do_table_change(self, key: Any, new: Any, old: Any, timestamp_ms: int) -> None:
        assert isinstance(self.table, TableAggregation)
        self.table.on_change(key, Change(new, old), timestamp_ms)

    def do_table_get(self, key: Any) -> Any:
        row = self.table.get(key)
        return None if row is None else [row.value, row.timestamp_ms]

    def do_emitted(self) -> list[Any]:
        return [list(row) for row in self.observed.rows()]

    def do_flush(self) -> None:
        for release in self.releases:
            release()
        for task in self.tasks:
            task.end_batch()

    def do_flush_forward(self) -> list[Any]:
        self.do_flush()
        return self.do_changes()

    def do_changes(self) -> list[Any]:
        shows_old = bool(self.config.get("send_old")) or not self.config.get("cache")
        return [[key, new, old if shows_old else None] for key, new, old in self.observed.changes()]

    def do_dropped_total(self) -> int:
        return self.source.dropped.total
