"""An app whose state is behind a repartition topic: what the items of each group add up to."""

from __future__ import annotations

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.topology import StreamsBuilder

ITEMS, TOTALS = "grouped-items", "grouped-totals"
GROUPS = 5


def topology(streams: StreamsBuilder, _: AppSettings) -> None:
    """Each item's newest amount, by the group that the amount is in."""
    items = streams.table(ITEMS, int, store="items")
    groups = items.group_by(lambda _, amount: (f"group {amount % GROUPS}", amount), values=int)
    totals = groups.aggregate(int, lambda total, amount: total + amount, lambda total, amount: total - amount,
                              store="totals")  # fmt: skip
    totals.to_stream().to(TOTALS)


GROUPED = topology_app("grouped", topology, title="Totals of groups")
