"""What the careless app must have written, recomputed from its orders alone."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.crashes.careless import (
    AHEAD,
    CLOSED,
    FAILS_AT_ONCE,
    FAILS_IN_ITEMS,
    FAILS_IN_SHOPS,
    HELD,
    LINES,
    SIZE,
    TOPIC,
    TOTALS,
    WITHOUT_SHOP,
    is_lucky,
)
from harness.crashes.oracle import Difference
from harness.crashes.orders import END_MS, bad_keys
from harness.poison import POISON
from harness.topics import Record

DEAD_LETTERS = "careless-dlq"
CHANGELOGS = {name: f"careless-{name}-changelog" for name in ("order-counts", "order-sums", "shop-sums")}
CHANGELOGS_OF_WINDOWS = ("careless-shop-spans-changelog", "careless-item-spans-changelog")
REPARTITION = "careless-by-item-repartition"
TOPICS = (TOPIC, LINES, TOTALS, CLOSED, HELD, DEAD_LETTERS)
_SIZE_MS = int(SIZE.total_seconds() * 1000)
_VALUES = {poison.value for poison in POISON.values()}
_KEYS = {poison.key for poison in bad_keys()}
_AT_ONCE = {*FAILS_AT_ONCE, AHEAD}
_SUMS = ("shop-sums", "order-sums")

Json = dict[str, Any]


@dataclass(slots=True)
class CarelessOracle:
    """The orders that arrived, and what follows from them."""

    records: list[Record]
    good: list[Json] = field(init=False)
    bad: list[Record] = field(init=False)

    def __post_init__(self) -> None:
        self.good, self.bad = [], []
        for record in self.records:
            order = self._order(record)
            if order is None or order["fails"] in _AT_ONCE:
                self.bad.append(record)
            else:
                self.good.append(order)

    @property
    def kinds(self) -> Counter[str]:
        """How many orders each function was to fail on."""
        orders = [self._order(record) for record in self.records]
        return Counter("undecodable" if order is None else order["fails"] for order in orders)

    def differences(self, read: Callable[[str], list[Record]]) -> list[Difference]:
        """How each output differs; `read` reads the committed records of a topic."""
        return [
            Difference.between(LINES, ((o["id"], o["cents"]) for o in self.good), _tuples(read(LINES), "id", "cents")),
            self._totals(read(TOTALS)),
            *(Difference.between(topic, map(_row, self._rows(topic, lucky=True)), map(_row, _values(read(topic))))
              for topic in (CLOSED, HELD)),
            *(self._store(name, read(topic)) for name, topic in CHANGELOGS.items()),
            self._letters(read(DEAD_LETTERS)),
        ]  # fmt: skip

    def _order(self, record: Record) -> Json | None:
        """The order in a record; None for poison."""
        if record.value in _VALUES or record.key in _KEYS:
            return None
        assert record.value is not None
        order: Json = json.loads(record.value)
        return order

    def _shops(self) -> Iterator[Json]:
        """The orders that the shops take."""
        apart = {*FAILS_IN_SHOPS, *FAILS_IN_ITEMS, WITHOUT_SHOP}
        return (order for order in self.good if order["fails"] not in apart)

    def _items(self) -> Iterator[Json]:
        """The orders that the items take."""
        apart = {*FAILS_IN_SHOPS, *FAILS_IN_ITEMS}
        return (order for order in self.good if order["fails"] not in apart)

    def _totals(self, found: list[Record]) -> Difference:
        """Each order of a shop once, with totals that grow by exactly it."""
        cents = {order["id"]: order["cents"] for order in self._shops()}
        running: dict[str, Json] = defaultdict(lambda: {"orders": 0, "cents": 0})
        listed: list[tuple[Hashable, ...]] = []
        for total in _values(found):
            row = running[total["shop"]]
            row["orders"] += 1
            row["cents"] += cents.get(total["id"], 0)
            entry = (total["id"], total["shop"])
            listed.append(entry if (total["orders"], total["cents"]) == (*row.values(),) else (*entry, "wrong total"))
        return Difference.between(TOTALS, ((order["id"], order["shop"]) for order in self._shops()), listed)

    def _rows(self, topic: str, *, lucky: bool) -> list[Json]:
        """The rows of closed windows that pass, or those that fail when they are let go."""
        orders, name = (self._shops(), "shop") if topic == CLOSED else (self._items(), "item")
        rows: dict[tuple[str, int], Json] = {}
        for order in orders:
            start_ms = order["time_ms"] // _SIZE_MS * _SIZE_MS
            if order["time_ms"] < END_MS:
                row = rows.setdefault((order[name], start_ms), _span(order[name], start_ms))
                row["orders"] += 1
                row["cents"] += order["cents"]
        return [row for row in rows.values() if is_lucky(row["orders"]) is lucky]

    def _store(self, name: str, found: list[Record]) -> Difference:
        """The newest row of each key; and none was written twice by a batch."""
        rows: dict[str, Any] = {}
        orders = self._shops() if name == "shop-sums" else iter(self.good)
        for order in orders:
            key = order["shop" if name == "shop-sums" else "card"]
            old = rows.get(key, {"orders": 0, "cents": 0, "share": 0.0})
            rows[key] = {**old, "orders": old["orders"] + 1, "cents": old["cents"] + order["cents"]}
        if name not in _SUMS:
            rows = {key: row["orders"] for key, row in rows.items()}
        newest = {record.key: record.value for record in found}
        listed = [((key or b"").decode(), _row(json.loads(value or b"null"))) for key, value in newest.items()]
        written = Counter((record.key, record.headers.get("batch-id")) for record in found)
        twice = [(key, "twice in one batch") for (key, batch), times in written.items() if batch and times > 1]
        return Difference.between(f"store {name}", ((key, _row(row)) for key, row in rows.items()), [*listed, *twice])

    def _letters(self, found: list[Record]) -> Difference:
        """Each record that failed once, with what it was: where it came from, or by its row."""
        expected: list[Hashable] = [(TOPIC, r.partition, r.offset, r.key, r.value) for r in self.bad]
        behind = {*FAILS_IN_SHOPS, *FAILS_IN_ITEMS}
        orders = ((r, self._order(r)) for r in self.records)
        expected += [(r.partition, r.offset, o["fails"], o["id"]) for r, o in orders if o and o["fails"] in behind]
        expected += [_row(row) for topic in (CLOSED, HELD) for row in self._rows(topic, lucky=False)]
        return Difference.between(DEAD_LETTERS, expected, map(_letter, found))


def _letter(record: Record) -> Hashable:
    topic = (record.headers.get("dlq.topic") or b"").decode()
    if not topic:
        return _row(json.loads(record.value or b"null"))
    place = [int(record.headers[f"dlq.{name}"] or b"") for name in ("partition", "offset")]
    if "dlq.repartition" not in record.headers:
        return (topic, *place, record.key, record.value)
    content = json.loads(record.value or b"null")
    return (*place, content["fails"], content["id"])


def _span(name: str, start_ms: int) -> Json:
    return {"name": name, "start_ms": start_ms, "orders": 0, "cents": 0}


def _values(records: Iterable[Record]) -> list[Json]:
    return [json.loads(record.value or b"null") for record in records]


def _tuples(records: Iterable[Record], *names: str) -> list[Hashable]:
    return [tuple(value[name] for name in names) for value in _values(records)]


def _row(row: Mapping[str, Any] | int) -> Hashable:
    return tuple(sorted(row.items())) if isinstance(row, Mapping) else row
