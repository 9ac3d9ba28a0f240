from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from storekeeper.errors import SerializationError
from storekeeper.schemas.as_json import JsonView
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.bound import bound_to
from storekeeper.schemas.errors import UnknownSchemaError
from storekeeper.schemas.json_schema import JsonSchemaSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.schemas.registry import MemoryRegistry
from tests.schemas.samples import AVRO, JSON, Purchase, message

PURCHASE = Purchase("7", Decimal("12345678901234.5670"))


def test_each_format_is_shown_with_all_digits() -> None:
    registry = MemoryRegistry()
    view = JsonView(registry)
    for serde, shown in (
        (AvroSerde(AVRO, Purchase), b'{"card":"7","amount":12345678901234.5670}'),
        (JsonSchemaSerde(JSON, Purchase), b'{"card":"7","amount":12345678901234.5670}'),
        (ProtobufSerde(message(), Purchase), b'{"card":"7","amount":"12345678901234.5670"}'),
    ):
        data = bound_to(serde, type(serde).__name__, registry).serialize(PURCHASE)
        assert view.json_of(data) == shown


def test_bytes_and_times_are_shown_as_msgspec_writes_them() -> None:
    registry = MemoryRegistry()
    fields = [
        {"name": "raw", "type": "bytes"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "none", "type": ["null", "string"]},
    ]
    serde = bound_to(AvroSerde({"type": "record", "name": "R", "fields": fields}), "r", registry)
    data = serde.serialize({"raw": b"\xff", "at": datetime(2026, 11, 25, tzinfo=UTC), "none": None})
    assert JsonView(registry).json_of(data) == b'{"raw":"/w==","at":"2026-11-25T00:00:00Z","none":null}'


def test_what_can_not_be_shown_is_an_error() -> None:
    registry = MemoryRegistry()
    view = JsonView(registry)
    for serde in (AvroSerde(AVRO, Purchase), JsonSchemaSerde(JSON, Purchase), ProtobufSerde(message(), Purchase)):
        data = bound_to(serde, type(serde).__name__, registry).serialize(PURCHASE)
        with pytest.raises(SerializationError):
            view.json_of(data[:-1])
    with pytest.raises(SerializationError, match="begin with a 0"):
        view.json_of(b"{}")
    with pytest.raises(UnknownSchemaError):
        view.json_of(b"\0\0\0\0\x63x")
