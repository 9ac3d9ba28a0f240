"""From what happens to an order to where it is now.

Topic `order-events`, key OrderNumber: {OrderNumber, Status, Latitude, Longitude, EventTime}. The event with the newest
time tells where the order is, in whatever order events come; of two with the same time, the one that came later. A
delivered or cancelled order leaves the store. It stays known for `order_memory_ms` more, so that an event that
overtook another one doesn't bring it back; an event older than that is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated

import msgspec
import orjson

from spark_apps.order_location.spec import ORDER_LOCATIONS, ORDERS
from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.records.poison import Code, Name, PoisonRecordError, StrictDecoder, TimeMs
from spark_apps.settings import AppSettings

STATUSES = frozenset({"PLACED", "PICKED-UP", "ON-THE-WAY", "DELIVERED", "CANCELLED"})
ENDED = frozenset({"DELIVERED", "CANCELLED"})


class OrderEvent(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "order_number": "OrderNumber",
        "status": "Status",
        "latitude": "Latitude",
        "longitude": "Longitude",
        "event_time_ms": "EventTime",
    },
):
    """Something that happened to an order, and where. Degrees, north and east positive."""

    order_number: Code
    status: Name
    latitude: Annotated[float, msgspec.Meta(ge=-90, le=90)]
    longitude: Annotated[float, msgspec.Meta(ge=-180, le=180)]
    event_time_ms: TimeMs


class OrderState(msgspec.Struct, array_like=True):
    """The newest event time of an order, and whether the order has ended."""

    updated_time_ms: int
    ended: bool


_decode = msgspec.msgpack.Decoder(OrderState).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class OrderLocation:
    """Keeps the newest event of each order."""

    memory_ms: int
    max_record_bytes: int

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Moves the order, unless a newer event has."""
        event = parse_order_event(record.key, record.value, max_record_bytes=self.max_record_bytes)
        context.advance(event.event_time_ms)
        if event.event_time_ms + self.memory_ms <= context.stream_time_ms:
            context.late()
            return
        key = event.order_number.encode()
        stored = context.get(key)
        known = None if stored is None else _decode(stored)
        if known is not None and known.updated_time_ms > event.event_time_ms:
            return
        ended = event.status in ENDED
        context.put(key, _encode(OrderState(event.event_time_ms, ended)))
        value = None if ended else location_value(event)
        for store in (ORDER_LOCATIONS, ORDERS):
            context.change(store.name, key, value)
        if ended:
            context.schedule(event.event_time_ms + self.memory_ms, key)

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Forgets an order that ended long ago."""
        stored = context.get(key)
        if stored is None:
            return
        known = _decode(stored)
        if known.ended and known.updated_time_ms + self.memory_ms <= context.stream_time_ms:
            context.put(key, None)


def processor(settings: AppSettings) -> OrderLocation:
    """The app's logic under these settings."""
    return OrderLocation(settings.order_memory_ms, settings.max_record_bytes)


def parse_order_event(key: bytes | None, value: bytes | None, *, max_record_bytes: int) -> OrderEvent:
    """The event in a record of `order-events`.

    Raises:
        PoisonRecordError: it is none: see `StrictDecoder.decode`; or its status is unknown, or its key another order's.
    """
    event = _decoder(max_record_bytes).decode(key, value)
    if event.status not in STATUSES:
        msg = f"Status is none of {', '.join(sorted(STATUSES))}"
        raise PoisonRecordError(msg)
    if key != event.order_number.encode():
        raise PoisonRecordError("the key is not the OrderNumber")
    return event


def location_value(event: OrderEvent) -> bytes:
    """The row of the store."""
    return orjson.dumps(
        {
            "OrderNumber": event.order_number,
            "Status": event.status,
            "Latitude": event.latitude,
            "Longitude": event.longitude,
            "UpdatedTime": event.event_time_ms,
        }
    )


@lru_cache(maxsize=4)
def _decoder(max_record_bytes: int) -> StrictDecoder[OrderEvent]:
    return StrictDecoder(OrderEvent, max_record_bytes=max_record_bytes)
