"""Purchases on their way from the fan-out to the loyalty app: the records of topic `loyalty-purchases-repartition`.

The key is the customer's card, so that all of a customer's purchases are in one partition, in the order of `pos` for
each partition of `pos`. The value is as short as can be, for half of all invoices pass here:

| bytes   | what, little-endian                                                        |
|---------|----------------------------------------------------------------------------|
| 0       | 1: a purchase; 2: all purchases up to this place have been written          |
| 1 to 4  | partition of `pos`, signed                                                 |
| 5 to 12 | offset there, signed                                                       |
| 13 to 20| time of the invoice, epoch ms, signed (purchases only)                     |
| 21 to 28| amount as the till wrote it, a double (purchases only)                     |
| from 29 | invoice number, UTF-8 (purchases only)                                     |

A record of kind 2 has no key and is written to every partition at the end of each task. By it a reader knows how far
it has all purchases of a partition of `pos`, prime customers or not.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from spark_apps.records.invoice import Invoice
from state.errors import SerializationError

_PURCHASE, _REACHED = 1, 2
_FIELDS = struct.Struct("<biqqd")
_PLACE = struct.Struct("<biq")
_pack, _unpack, _size = _FIELDS.pack, _FIELDS.unpack_from, _FIELDS.size


class PrimePurchase(NamedTuple):
    """A prime customer's invoice, with what orders it among the customer's others: time first, then place in `pos`.

    A named tuple because a frozen dataclass takes three times as long to make.
    """

    card: str
    created_time_ms: int
    partition: int
    offset: int
    invoice_number: str
    amount: float


class Reached(NamedTuple):
    """All purchases of a partition of `pos` up to `offset`, inclusive, have been written before this."""

    partition: int
    offset: int


def encode_purchase(invoice: Invoice, partition: int, offset: int) -> bytes:
    """The value of a purchase's record."""
    fields = _pack(_PURCHASE, partition, offset, invoice.created_time_ms, invoice.total_amount)
    return fields + invoice.invoice_number.encode()


def encode_reached(reached: Reached) -> bytes:
    """The value of the record at the end of a task."""
    return _PLACE.pack(_REACHED, *reached)


def decode_purchase(key: bytes | None, value: bytes | None) -> PrimePurchase | Reached:
    """What a record of the topic says.

    Raises:
        SerializationError: the fan-out didn't write it.
    """
    try:
        if key is None or value is None:
            kind, partition, offset = _PLACE.unpack(value or b"")
            if kind == _REACHED:
                return Reached(partition, offset)
        else:
            kind, partition, offset, created_time_ms, amount = _unpack(value)
            if kind == _PURCHASE:
                return PrimePurchase(key.decode(), created_time_ms, partition, offset, value[_size:].decode(), amount)
    except (struct.error, UnicodeDecodeError):
        pass
    raise SerializationError("a record is no purchase: is something else writing to this topic?")
