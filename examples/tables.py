"""Tables and windows over the stream of a shop's tills, all in one process: run it and read what comes out.

python examples/tables.py
"""

from __future__ import annotations

from datetime import timedelta

from storekeeper import (
    EmitStrategy,
    KTable,
    StreamsBuilder,
    TopologyTestDriver,
    Windowed,
    sessions,
    tumbling,
    until_window_closes,
)

MINUTE = timedelta(minutes=1)
MINUTE_MS = 60_000
SALES = [
    # (store, amount in 1e-4 units, minute); the third comes late
    ("STR1", 1_000_000, 0),
    ("STR2", 500_000, 4),
    ("STR1", 250_000, 3),
    ("STR1", 400_000, 11),
    ("STR2", 100_000, 31),
]


def pipe_sales(streams: StreamsBuilder, results: KTable[Windowed[str], int]) -> TopologyTestDriver:
    """Runs the topology on all sales and prints the results of its windows."""
    results.to_stream().to("results")
    driver = TopologyTestDriver(streams.build())
    for shop, amount, minute in SALES:
        driver.pipe("sales", shop, amount, minute * MINUTE_MS)
    for window, value, _ in driver.read("results"):
        start, end = window.start_ms // MINUTE_MS, window.end_ms // MINUTE_MS
        print(f"  {window.key} minutes {start} to {end}: {value}")
    return driver


def sales_every_ten_minutes() -> None:
    """Turnover of each store and ten minutes, emitted once, when two more minutes have passed."""
    streams = StreamsBuilder("turnover")
    turnover = (
        streams.stream("sales", int)
        .group_by_key()
        .windowed_by(tumbling(10 * MINUTE, grace=2 * MINUTE), emit=EmitStrategy.ON_WINDOW_CLOSE)
        .reduce(lambda total, amount: total + amount)
    )
    print("turnover, final:")
    driver = pipe_sales(streams, turnover)
    print(f"  too late: {driver.dropped.total}")


def busy_spells() -> None:
    """How many sales each spell of activity had, at most five minutes from one to the next."""
    streams = StreamsBuilder("spells")
    windows = sessions(5 * MINUTE, grace=MINUTE)
    spells = streams.stream("sales", int).group_by_key().windowed_by(windows).count()
    print("sales in each busy spell:")
    pipe_sales(streams, spells.suppress(until_window_closes(windows)))


def customers_by_tier() -> None:
    """How many customers each tier has, while customers move between tiers."""
    streams = StreamsBuilder("tiers")
    tiers = streams.table("points", int).map_values(lambda points: "gold" if points >= 1_000 else "basic", values=str)
    tiers.group_by(lambda card, tier: (tier, card), values=str).count(store="tiers")
    driver = TopologyTestDriver(streams.build())
    for card, points in [("c1", 10), ("c2", 2_000), ("c1", 1_500), ("c2", None)]:
        driver.pipe("points", card, points, 0)
    print("customers:")
    for tier, count in driver.rows("tiers"):
        print(f"  {tier}: {count}")


def main() -> None:
    """Runs the three."""
    sales_every_ten_minutes()
    busy_spells()
    customers_by_tier()


if __name__ == "__main__":
    main()
