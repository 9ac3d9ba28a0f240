"""Records that no app can process, of every kind, to be mixed among good ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from demo.invoices import Record

_KIB = 1024


def poison_records(count: int, good: Sequence[Record]) -> list[Record]:
    """`count` poison records made from good ones, every kind as often as the others, each different."""
    return [_spoilt(index, orjson.loads(good[index * 7 % len(good)].value or b"")) for index in range(count)]


def spread(poison: Sequence[Any], among: Sequence[Any]) -> list[Any]:
    """Both sequences as one, each in its order, with `poison` spread evenly."""
    step = len(among) / (len(poison) + 1)
    merged, taken = [], 0
    for number, record in enumerate(poison, start=1):
        until = round(number * step)
        merged += [*among[taken:until], record]
        taken = until
    return [*merged, *among[taken:]]


def _spoilt(index: int, fields: dict[str, Any]) -> Record:
    key: bytes | None = str(fields["StoreID"]).encode()
    # A unique number makes every poison record differ from all others, and from the good one that it came from.
    fields["InvoiceNumber"] = f"poison-{index}"
    kind, change = _KINDS[index % len(_KINDS)]
    value = change(fields, index)
    if kind == "null key":
        key = None
    elif kind == "empty key":
        key = b""
    return Record("pos", key, value, kind)


def _with(fields: dict[str, Any], **changes: Any) -> bytes:
    return orjson.dumps(fields | changes)


def _without(fields: dict[str, Any], name: str) -> bytes:
    return orjson.dumps({key: value for key, value in fields.items() if key != name})


def _null_value(_: dict[str, Any], index: int) -> bytes | None:
    # Null values can't be distinguished: the first is null, later ones are JSON's null with ever more blanks.
    return None if index < len(_KINDS) else b"null" + b" " * (index // len(_KINDS))


_KINDS = (
    ("malformed", lambda fields, _: _with(fields).replace(b":", b";", 3)),
    ("truncated", lambda fields, _: _with(fields)[:-20]),
    ("null key", lambda fields, _: _with(fields)),
    ("empty key", lambda fields, _: _with(fields)),
    ("null value", _null_value),
    ("oversized", lambda fields, index: _with(fields, Note="x" * (260 * _KIB + index))),
    ("far oversized", lambda fields, index: _with(fields, Note="x" * (1024 * _KIB + index)) if index < 60 else _with(
        fields, Note="x" * (300 * _KIB + index))),
    ("wrong type", lambda fields, _: _with(fields, TotalAmount="12.50")),
    ("wrong type of time", lambda fields, _: _with(fields, CreatedTime="1997-01-01")),
    ("wrong type of items", lambda fields, _: _with(fields, InvoiceLineItems={"ItemCode": "CD100"})),
    ("missing field", lambda fields, _: _without(fields, "CustomerCardNo")),
    ("not finite", lambda fields, _: _with(fields, TotalAmount=-1.5).replace(b"-1.5", b"NaN", 1)),
    ("absurd number", lambda fields, _: _with(fields, TotalAmount=1e300)),
    ("long text", lambda fields, _: _with(fields, CashierID="9" * 1025)),
    ("not UTF-8", lambda fields, _: _with(fields, CashierID="OAS\u00e9").replace(b"\xc3\xa9", b"\xe9\xff")),
    ("no object", lambda fields, _: orjson.dumps([fields])),
)  # fmt: skip
