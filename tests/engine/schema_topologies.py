"""A shop whose topics are in Avro and Protobuf, and the next versions of its schemas."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec

from storekeeper.apps.settings import AppSettings
from storekeeper.schemas.avro import AvroSerde
from storekeeper.schemas.protobuf import ProtobufSerde
from storekeeper.topology import Store, StreamsBuilder
from tests.schemas.samples import AVRO, MONEY, Purchase, message, proto

_FIELDS = [{"name": "card", "type": "string"}, {"name": "sum", "type": MONEY}]


class Total(msgspec.Struct, frozen=True):
    """What a card has paid."""

    card: str = ""
    sum: Decimal = Decimal(0)


class TillsTotal(Total, frozen=True):
    """The same with a number of tills."""

    tills: int = 0


def total_schema(*more: dict[str, Any]) -> dict[str, Any]:
    """The schema of `Total`, with more fields."""
    return {"type": "record", "name": "Total", "namespace": "shop", "fields": [*_FIELDS, *more]}


def shop(streams: StreamsBuilder, _: AppSettings) -> None:
    """The first version."""
    _shop(streams, AvroSerde(total_schema(), Total), ProtobufSerde(message(), Purchase, proto=proto()))


def shop_with_tills(streams: StreamsBuilder, _: AppSettings) -> None:
    """The next one: `tills` has a default, so that old rows can be read; receipts have one field more."""
    totals = AvroSerde(total_schema({"name": "tills", "type": "long", "default": 0}), TillsTotal)
    _shop(streams, totals, ProtobufSerde(message(tills=True), Purchase, proto=proto(tills=True)))


def shop_with_required_tills(streams: StreamsBuilder, _: AppSettings) -> None:
    """One that old rows can't be read with."""
    totals = AvroSerde(total_schema({"name": "tills", "type": "long"}), TillsTotal)
    _shop(streams, totals, ProtobufSerde(message(), Purchase, proto=proto()))


def shop_in_cents(streams: StreamsBuilder, _: AppSettings) -> None:
    """One whose receipts have another type of amount, which readers of old ones don't expect."""
    receipts = ProtobufSerde(message(cents=True), Purchase, proto=proto(cents=True))
    _shop(streams, AvroSerde(total_schema(), Total), receipts)


def _shop(streams: StreamsBuilder, totals: AvroSerde[Any], receipts: ProtobufSerde[Purchase]) -> None:
    purchases = streams.stream("shop-purchases", AvroSerde(AVRO, Purchase))
    refunds = streams.stream("shop-refunds", ProtobufSerde(message(), Purchase)).map_values(_negative)
    purchases.to("shop-receipts", values=receipts)
    cards = purchases.merge(refunds).select_key(lambda _, purchase: purchase.card).group_by_key()
    table = cards.aggregate(totals.type or Total, _plus, store=Store("totals", totals))
    table.to_stream().to("shop-totals")


def _negative(refund: Purchase) -> Purchase:
    return Purchase(refund.card, -refund.amount)


def _plus(total: Any, purchase: Purchase) -> Any:
    return msgspec.structs.replace(total, card=purchase.card, sum=total.sum + purchase.amount)
