"""From events to totals.

The key of an event says what it belongs to; its value is {"Amount": 5}.
"""

from __future__ import annotations

import msgspec

from spark_apps.checked_table import CheckedColumn, CheckedTable
from spark_apps.records import Count, KeySerde, ValueSerde, has_key_and_value
from spark_apps.settings import AppSettings
from spark_apps.topology_app import topology_app
from state.topology import Store, StreamsBuilder, with_key

EVENTS = "template_app-events"


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    """What a record of the source topic holds. Anything else becomes a dead letter."""

    amount: Count


class Totals(msgspec.Struct, frozen=True, rename="pascal"):
    """What a key has added up to: a row of the store."""

    key: str = ""
    events: int = 0
    total: int = 0


CHECKS = CheckedTable("totals", columns=(CheckedColumn("Events", "bigint", least=1),))
"""What a snapshot of the store must be, beside what the types of its rows say."""


def with_event(key: str, totals: Totals, event: Event) -> Totals:
    """The totals with one more event."""
    return Totals(key, totals.events + 1, totals.total + event.amount)


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Adds up the number and the sum of each key's events."""
    events = streams.stream(
        EVENTS, ValueSerde(Event, settings.max_record_bytes), keys=KeySerde(), check=has_key_and_value
    )
    events.group_by_key().aggregate(Totals, with_key(with_event), store=Store("totals", Totals))


TEMPLATE_APP = topology_app("template_app", topology, title="What each key has added up to", tables=(CHECKS,))
