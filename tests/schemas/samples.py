"""A purchase in each format, as its struct, and as the next versions of its schema."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.message import Message


class Purchase(msgspec.Struct, frozen=True):
    card: str
    amount: Decimal


MONEY = {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 4}
_FIELDS = [{"name": "card", "type": "string"}, {"name": "amount", "type": MONEY}]


def avro_record(*more: dict[str, Any], name: str = "Purchase") -> dict[str, Any]:
    return {"type": "record", "name": name, "namespace": "shop", "fields": [*_FIELDS, *more]}


AVRO = avro_record()
AVRO_WITH_TILL = avro_record({"name": "till", "type": "string", "default": ""})
"""Backward compatible: old records have the default."""
AVRO_WITH_REQUIRED_TILL = avro_record({"name": "till", "type": "string"})
"""Not backward compatible: old records have no till."""

JSON = {
    "type": "object",
    "properties": {"card": {"type": "string"}, "amount": {"type": "number", "minimum": 0}},
    "required": ["card", "amount"],
    "additionalProperties": False,
}

_TEXT, _INT64, _OPTIONAL = 9, 3, 1


def proto(*, tills: bool = False, cents: bool = False) -> str:
    """The text of the file that `message` is made from."""
    amount, till = "int64" if cents else "string", "string till = 3;" if tills else ""
    return (
        'syntax = "proto3";\npackage shop;\nmessage Nothing {}\n'
        f"message Purchase {{ string card = 1; {amount} amount = 2; {till} }}\n"
    )


def message(name: str = "Purchase", *, tills: bool = False, cents: bool = False) -> type[Message]:
    """A message class as `protoc` would make it, the second of its file.

    Args:
        name: the message's name.
        tills: whether it has the field `till`, which is compatible.
        cents: whether `amount` is a number of cents, which is not compatible.
    """
    file = descriptor_pb2.FileDescriptorProto(name="purchase.proto", package="shop", syntax="proto3")
    file.message_type.add(name="Nothing")
    made = file.message_type.add(name="Purchase")
    made.field.add(name="card", number=1, type=_TEXT, label=_OPTIONAL)
    made.field.add(name="amount", number=2, type=_INT64 if cents else _TEXT, label=_OPTIONAL)
    if tills:
        made.field.add(name="till", number=3, type=_TEXT, label=_OPTIONAL)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(f"shop.{name}"))
