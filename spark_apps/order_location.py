"""The locations of the orders on their way.

Topic `order-events`, key OrderNumber: {OrderNumber, Status, Latitude, Longitude, EventTime}. The event with the newest
time has the order's location, whatever order events arrive in; of two with the same time, the later arrival counts. A
delivered or cancelled order leaves the stores. It stays known for the
`RETENTION` of `order-times`, so that an event that
overtook another one does not bring it back; an event older than that is late.

Store `orders` has the rows by partition. Store `order-locations` has the same rows on every node: the topic
`order-locations` itself is its changelog. Store `order-times` has the newest time of each order.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any

import msgspec

from state.order_locations import ORDER_LOCATIONS
from state.order_times import ORDER_TIMES, RETENTION, OrderTime
from state.orders import ORDERS, OrderLocation
from storekeeper import (
    MAX_TIMESTAMP_MS,
    AppSettings,
    Code,
    DropReason,
    KeySerde,
    Name,
    PoisonRecordError,
    ProcessorContext,
    StreamsBuilder,
    TimeMs,
    ValueSerde,
    WindowStore,
    all_of,
    json_name,
    keyed_by,
    not_ahead,
    topology_app,
)

TOPIC = "order-events"
STATUSES = frozenset({"PLACED", "PICKED-UP", "ON-THE-WAY", "DELIVERED", "CANCELLED"})
ENDED = frozenset({"DELIVERED", "CANCELLED"})
_TIMES = str(ORDER_TIMES.name)


class OrderEvent(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """Something that happened to an order, and where. Degrees, north and east positive."""

    order_number: Code
    status: Name
    latitude: Annotated[float, msgspec.Meta(ge=-90, le=90)]
    longitude: Annotated[float, msgspec.Meta(ge=-180, le=180)]
    event_time_ms: TimeMs


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Keeps the location of each order that has not ended."""
    streams.add_store(ORDER_TIMES)
    events = streams.stream(
        TOPIC, ValueSerde(OrderEvent, settings.max_record_bytes), keys=KeySerde(),
        check=all_of(keyed_by("OrderNumber", order_of), known_status, not_ahead(time_of)),
        timestamps=lambda _, event: event.event_time_ms,
    )  # fmt: skip
    memory_ms = RETENTION // timedelta(milliseconds=1)
    newest = events.process_values(lambda: NewestOnly(memory_ms), stores=[_TIMES], values=OrderEvent)
    locations = newest.map_values(location)
    locations.to_table(store=ORDERS)
    locations.to_table(store=ORDER_LOCATIONS)


@dataclass(slots=True)
class NewestOnly:
    """Passes an event on unless a newer one of its order came before. Keeps each order's newest time in one row."""

    memory_ms: int
    _context: ProcessorContext[str, OrderEvent] = field(init=False)
    _times: WindowStore[str, OrderTime] = field(init=False)

    def init(self, context: ProcessorContext[str, OrderEvent]) -> None:
        """Gets the store."""
        self._context = context
        self._times = context.store(_TIMES)

    def process(self, key: str, event: OrderEvent, timestamp_ms: int) -> None:
        """Passes the event on, unless it is late or overtaken."""
        if timestamp_ms + self.memory_ms <= self._context.stream_time_ms:
            self._context.drop(DropReason.EXPIRED_WINDOW)
            return
        with self._times.fetch(key, 0, MAX_TIMESTAMP_MS) as rows:
            known_ms = max((start_ms for start_ms, _ in rows), default=-1)
        if known_ms > timestamp_ms:
            return
        if 0 <= known_ms < timestamp_ms:
            self._times.put(key, None, known_ms)
        self._times.put(key, OrderTime(timestamp_ms), timestamp_ms)
        self._context.forward(key, event)


def location(event: OrderEvent) -> OrderLocation | None:
    """The row; None for an order that has ended."""
    if event.status in ENDED:
        return None
    return OrderLocation(event.order_number, event.status, event.latitude, event.longitude, event.event_time_ms)


def known_status(_key: Any, event: OrderEvent, _timestamp_ms: int) -> None:
    """Refuses an event with an unknown status.

    Raises:
        PoisonRecordError: the status is none of `STATUSES`.
    """
    if event.status not in STATUSES:
        msg = f"Status is none of {', '.join(sorted(STATUSES))}"
        raise PoisonRecordError(msg)


def order_of(event: OrderEvent) -> str:
    """The order of an event."""
    return event.order_number


def time_of(event: OrderEvent) -> int:
    """The time of an event, epoch ms."""
    return event.event_time_ms


ORDER_LOCATION = topology_app("order_location", topology, title="Locations of the orders on their way")
