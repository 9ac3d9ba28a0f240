"""From events to totals.

The key of an event names what it counts for. The value is {"Amount": 5}.
"""

from __future__ import annotations

import msgspec

from storekeeper import (
    AppSettings,
    CheckedColumn,
    CheckedTable,
    Count,
    KeySerde,
    Store,
    StreamsBuilder,
    ValueSerde,
    has_key_and_value,
    topology_app,
    with_key,
)

EVENTS = "template_app-events"


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    """A record of the source topic. Anything else becomes a dead letter."""

    amount: Count


class Totals(msgspec.Struct, frozen=True, rename="pascal"):
    """The totals of a key: a row of the store."""

    key: str = ""
    events: int = 0
    total: int = 0


CHECKS = CheckedTable("totals", columns=(CheckedColumn("Events", "bigint", least=1),))
"""Rules for every row of the store, in addition to the types of its fields."""


def with_event(key: str, totals: Totals, event: Event) -> Totals:
    """The totals with one more event."""
    return Totals(key, totals.events + 1, totals.total + event.amount)


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Adds up the number and the sum of each key's events."""
    events = streams.stream(
        EVENTS, ValueSerde(Event, settings.max_record_bytes), keys=KeySerde(), check=has_key_and_value
    )
    events.group_by_key().aggregate(Totals, with_key(with_event), store=Store("totals", Totals))


TEMPLATE_APP = topology_app("template_app", topology, title="The totals of each key", tables=(CHECKS,))
