"""From events to totals.

The key of an event names what it counts for. The value is {"Amount": 5}.
"""

from __future__ import annotations

import msgspec

from storekeeper import (
    AppSettings,
    Count,
    KeySerde,
    StreamsBuilder,
    ValueSerde,
    has_key_and_value,
    topology_app,
    with_key,
)
from storekeeper.ops.new_project.template.quality.template_app_totals import CHECKS
from storekeeper.ops.new_project.template.state.template_app_totals import TOTALS, Totals

EVENTS = "template_app-events"


class Event(msgspec.Struct, frozen=True, rename="pascal"):
    """A record of the source topic. Anything else becomes a dead letter."""

    amount: Count


def with_event(key: str, totals: Totals, event: Event) -> Totals:
    """The totals with one more event."""
    return Totals(key, totals.events + 1, totals.total + event.amount)


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Adds up the number and the sum of each key's events."""
    events = streams.stream(
        EVENTS, ValueSerde(Event, settings.max_record_bytes), keys=KeySerde(), check=has_key_and_value
    )
    events.group_by_key().aggregate(Totals, with_key(with_event), store=TOTALS)


TEMPLATE_APP = topology_app("template_app", topology, title="The totals of each key", tables=(CHECKS,))
