"""Tables and windows over the stream of a shop's tills, all in one process: run it and read what comes out.

python examples/tables.py
"""

from __future__ import annotations

from state.serdes.integers import Int64Serde
from state.serdes.serde import Utf8Serde
from state.serdes.timestamped import TimestampedSerde
from state.stores.builder import StoreBuilder
from state.stores.windowed import Windowed
from state.tables.aggregator import count, total
from state.tables.change import TableRecord
from state.tables.emit_strategy import EmitStrategy
from state.tables.grouped_table import GroupedTable
from state.tables.session_aggregation import SessionAggregation
from state.tables.suppress import SuppressedTable, until_window_closes
from state.tables.table import SourceTable
from state.tables.time_ordered_buffer import windowed_key_bytes
from state.tables.windowed_aggregation import WindowedAggregation
from state.tables.windows import SessionWindows, TimeWindows

MINUTE_MS = 60_000
SALES = [
    # (store, amount in 1e-4 units, minute); the third comes late
    ("STR1", 1_000_000, 0),
    ("STR2", 500_000, 4),
    ("STR1", 250_000, 3),
    ("STR1", 400_000, 11),
    ("STR2", 100_000, 31),
]


def show(record: TableRecord[Windowed[str], int]) -> None:
    """Prints one result of a window."""
    start, end = record.key.start_ms // MINUTE_MS, record.key.end_ms // MINUTE_MS
    print(f"  {record.key.key} minutes {start} to {end}: {record.change.new}")


def sales_every_ten_minutes() -> None:
    """Turnover of each store and ten minutes, told once, when two more minutes have passed."""
    windows = TimeWindows.tumbling(10 * MINUTE_MS, grace_ms=2 * MINUTE_MS)
    store = StoreBuilder("turnover").window(
        Utf8Serde(),
        TimestampedSerde(Int64Serde()),
        window_size_ms=windows.size_ms,
        retention_ms=windows.min_retention_ms,
    )
    turnover = WindowedAggregation(windows, total(), store, emit=EmitStrategy.ON_WINDOW_CLOSE)
    turnover.subscribe(show)
    print("turnover, final:")
    for shop, amount, minute in SALES:
        turnover.process(shop, amount, minute * MINUTE_MS)
    print(f"  too late: {turnover.dropped.total}")


def busy_spells() -> None:
    """How many sales each spell of activity had, at most five minutes from one to the next."""
    windows = SessionWindows(5 * MINUTE_MS, grace_ms=MINUTE_MS)
    store = StoreBuilder("spells").session(Utf8Serde(), Int64Serde(), retention_ms=2 * windows.min_retention_ms)
    spells = SessionAggregation(windows, count(), store)
    final = SuppressedTable(
        spells,
        until_window_closes(windows),
        key_bytes=windowed_key_bytes(str.encode),
        value_bytes=Int64Serde().serialize,
    )
    final.subscribe(show)
    print("sales in each busy spell:")
    for shop, amount, minute in SALES:
        spells.process(shop, amount, minute * MINUTE_MS)


def customers_by_tier() -> None:
    """How many customers each tier has, while customers move between tiers."""
    customers = SourceTable(StoreBuilder("points").timestamped_key_value(Utf8Serde(), Int64Serde()))
    tiers = customers.map_values(lambda _card, points: "gold" if points >= 1_000 else "basic")
    counts = GroupedTable(tiers, lambda card, tier: (tier, card)).count(
        StoreBuilder("tiers").timestamped_key_value(Utf8Serde(), Int64Serde())
    )
    for card, points in [("c1", 10), ("c2", 2_000), ("c1", 1_500), ("c2", None)]:
        customers.upsert(card, points, 0)
    print("customers:")
    for tier in ("basic", "gold"):
        row = counts.get(tier)
        print(f"  {tier}: {0 if row is None else row.value}")


def main() -> None:
    """Runs the three."""
    sales_every_ten_minutes()
    busy_spells()
    customers_by_tier()


if __name__ == "__main__":
    main()
