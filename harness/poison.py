"""Records that no app can process, of many kinds: as broken producers write them, or as an attacker would."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle, islice
from typing import Any, NamedTuple

import orjson

from harness.sales import sale, sale_bytes

BEFORE_1970_MS = -86_400_000
BEYOND_9999_MS = 253_402_300_800_000
MICROSECONDS = 1_595_688_900_348_000
"""A time in a unit that nobody expects."""


class Poison(NamedTuple):
    """A record that can't be processed.

    Attributes:
        timestamp_ms: its time; None for the time when it is written.
    """

    key: bytes | None
    value: bytes | None
    timestamp_ms: int | None = None


def _with(field: str, json: bytes, whole: Mapping[str, Any] = sale()) -> bytes:
    """An object, of itself an invoice, whose field has a value in JSON that no encoder of ours would write."""
    rest = orjson.dumps({name: value for name, value in whole.items() if name != field})[1:-1]
    return b'{"%s": %s%s}' % (field.encode(), json, b", " + rest if rest else b"")


def _in_utf_16() -> bytes:
    return sale_bytes().decode().encode("utf-16")


def _address(**changes: object) -> dict[str, object]:
    return {**sale()["DeliveryAddress"], **changes}


_VALUES: dict[str, bytes | None] = {
    "null": None,
    "empty": b"",
    "space": b"   ",
    "not JSON": b"2020-07-25;STR1;12.50",
    "truncated": sale_bytes()[:-20],
    "truncated inside of a character": sale_bytes(PosID="Üs")[: sale_bytes(PosID="Üs").index(b"\xc3") + 1],
    "trailing bytes": sale_bytes() + b"\x00\x00",
    "two invoices": sale_bytes() + b"\n" + sale_bytes(),
    "not UTF-8": b"\xff\xfe\xfd",
    "not UTF-8 in a text": sale_bytes(PosID="~").replace(b"~", b"\xc3\x28"),
    "not UTF-8 in an unknown field": sale_bytes(Note="~").replace(b"~", b"\xff"),
    "overlong UTF-8": sale_bytes(PosID="~").replace(b"~", b"\xc0\xaf"),
    "UTF-16": _in_utf_16(),
    "byte order mark": b"\xef\xbb\xbf" + sale_bytes(),
    "surrogate in UTF-8": sale_bytes(PosID="~").replace(b"~", b"\xed\xa0\x80"),
    "lone surrogate": _with("PosID", b'"\\ud800"'),
    "surrogates the wrong way around": _with("PosID", b'"\\udc00\\ud800"'),
    "half an escape": _with("PosID", b'"\\u12"'),
    "array": b"[1, 2]",
    "array of invoices": b"[" + sale_bytes() + b"]",
    "text": orjson.dumps(sale_bytes().decode()),
    "null as JSON": b"null",
    "number": b"7",
    "nested 3,000 deep": b"[" * 3000 + b"]" * 3000,
    "3,000 deep in an unknown field": _with("Note", b"[" * 3000 + b"]" * 3000),
    "3,000 objects deep": _with("DeliveryAddress", b'{"a":' * 3000 + b"1" + b"}" * 3000),
    "fields missing": b'{"InvoiceNumber": "7"}',
    "no fields": b"{}",
    "one field missing": sale_bytes(StoreID=...),
    "number for a text": sale_bytes(InvoiceNumber=7),
    "text for a number": sale_bytes(TotalAmount="12.50"),
    "boolean for a number": sale_bytes(NumberOfItems=True),
    "fraction for a whole number": sale_bytes(NumberOfItems=1.5),
    "null for a text": sale_bytes(PosID=None),
    "object for an array": sale_bytes(InvoiceLineItems={}),
    "array for an object": sale_bytes(DeliveryAddress=["Pune"]),
    "null in an array": sale_bytes(InvoiceLineItems=[None]),
    "NaN": _with("TotalAmount", b"NaN"),
    "Infinity": _with("TotalAmount", b"-Infinity"),
    "1e999": _with("TotalAmount", b"1e999"),
    "huge exponent": _with("TotalAmount", b"1e" + b"9" * 40),
    "huge amount": sale_bytes(TotalAmount=1e300),
    "decimal of 1,000 digits": _with("TotalAmount", b"9" * 1000 + b".5"),
    "beyond 64 bits": _with("NumberOfItems", b"18446744073709551616"),
    "below 64 bits": _with("CreatedTime", b"-9223372036854775809"),
    "whole number of 5,000 digits": _with("NumberOfItems", b"7" * 5000),
    "leading zero": _with("NumberOfItems", b"007"),
    "hexadecimal": _with("NumberOfItems", b"0x7"),
    "single quotes": sale_bytes().replace(b'"', b"'"),
    "comma at the end": sale_bytes()[:-1] + b",}",
    "comment": b"/* sale */" + sale_bytes(),
    "the same field again, of another type": sale_bytes()[:-1] + b',"TotalAmount":"1"}',
    "unknown customer type": sale_bytes(CustomerType="GOLD"),
    "unknown delivery type": sale_bytes(DeliveryType="DRONE"),
    "upper case that folds to a known type": sale_bytes(CustomerType="PR\u0130ME"),
    "no card of a prime customer": sale_bytes(CustomerCardNo=""),
    "no address of a home delivery": sale_bytes(DeliveryAddress=None),
    "half an address": sale_bytes(DeliveryAddress=_address(City=None)),
    "text that is too long": sale_bytes(CustomerCardNo="9" * 2000),
    "larger than a record may be": sale_bytes(Note="x" * 300_000),
    "line break in a key": sale_bytes(CustomerCardNo="4629\n1852"),
    "NUL in a key": sale_bytes(StoreID="STR\x001"),
    "DEL in a key": sale_bytes(InvoiceNumber="7\x7f"),
    "time as text": sale_bytes(CreatedTime="yesterday"),
    "time before 1970": sale_bytes(CreatedTime=BEFORE_1970_MS),
    "time in microseconds": sale_bytes(CreatedTime=MICROSECONDS),
    "time that is a fraction": sale_bytes(CreatedTime=1_595_688_900_348.5),
    "time beyond year 9999": sale_bytes(CreatedTime=BEYOND_9999_MS),
}

POISON: dict[str, Poison] = {
    "no key": Poison(None, sale_bytes(InvoiceNumber="without a key")),
    "empty key": Poison(b"", sale_bytes(InvoiceNumber="under an empty key")),
    "key that is too long": Poison(b"S" * 2000, sale_bytes(InvoiceNumber="under a long key")),
    **{name: Poison(b"STR1", value) for name, value in _VALUES.items()},
}
"""Poison of topic `pos`, by kind."""

ODD_TIMES_MS = {
    "in microseconds": MICROSECONDS,
    "beyond year 9999": BEYOND_9999_MS,
    "at the end of what Spark reads": (2**63 - 1) // 1000,
    "before 1970": BEFORE_1970_MS,
    "of no time": -1,
}
"""Times of records that a broker takes and that are none."""

TIMED_POISON: dict[str, Poison] = {
    f"record {name}": Poison(b"STR1", sale_bytes(InvoiceNumber=f"in a record {name}"), timestamp_ms)
    for name, timestamp_ms in ODD_TIMES_MS.items()
}
"""More of it, with sound content, for topics that take records of any time (`message.timestamp.after.max.ms`)."""


BAD_TEXT_KEYS: dict[str, bytes | None] = {
    "not UTF-8": b"\xff\xfe",
    "surrogate": b"STR\xed\xa0\x80",
    "control character": b"STR\n1",
    "NUL": b"\x00",
    "too long": b"S" * 2000,
    "empty": b"",
    "none": None,
}
"""Keys that no app takes whose keys are text."""


SOUND = {
    "ticks": {"null", "empty", "number"},  # no price deletes a symbol, and 7 is one
    "players": {"null"},
    "products": {"null"},
}
"""Kinds that are none in a topic."""
_OF_TEXTS = {
    "number": b"7",
    "lone surrogate": b'"\\ud800"',
    "half an escape": b'"\\u12"',
    "not UTF-8": b'"\xc3\x28"',
    "overlong UTF-8": b'"\xc0\xaf"',
    "surrogate in UTF-8": b'"\xed\xa0\x80"',
    "too long": b'"%s"' % (b"9" * 2000),
}
_OF_NUMBERS = {
    "text": b'"7"',
    "boolean": b"true",
    "NaN": b"NaN",
    "Infinity": b"-Infinity",
    "1e999": b"1e999",
    "huge exponent": b"1e" + b"9" * 40,
    "1,000 digits": b"9" * 1000 + b".5",
    "leading zero": b"007",
    "hexadecimal": b"0x7",
    "beyond 64 bits": b"18446744073709551616",
    "5,000 digits": b"7" * 5000,
}
_OF_WHOLE_NUMBERS = {**_OF_NUMBERS, "fraction": b"1.5"}
_OF_ALL = {"null": b"null", "object": b"{}", "array": b"[1]"}


def poison_of(topic: str, key: bytes, value: bytes, *, text_keys: bool = True) -> dict[str, Poison]:
    """Poison of a topic, by kind.

    Args:
        topic: the topic.
        key: that of a sound record. If it is an object, none of its fields may be left out or be of another type.
        value: the record's value.
        text_keys: whether keys must be text.
    """
    kinds = {**POISON, **TIMED_POISON}
    keys = BAD_TEXT_KEYS if text_keys else {}
    kinds |= {f"key: {kind}": Poison(bad, value) for kind, bad in keys.items()}
    if topic != "pos" and value.startswith(b"{"):
        kinds |= {kind: Poison(key, bad) for kind, bad in _spoiled(value).items()}
    return {kind: poison for kind, poison in kinds.items() if kind not in SOUND.get(topic, ())}


def _spoiled(value: bytes) -> dict[str, bytes]:
    """An object, spoiled in each of its fields that is not null, and as a whole."""
    sound: dict[str, Any] = orjson.loads(value)
    found = {
        "own: truncated": value[:-2],
        "own: trailing bytes": value + b"\x00",
        "own: twice": value * 2,
        "own: UTF-16": value.decode().encode("utf-16"),
        "own: byte order mark": b"\xef\xbb\xbf" + value,
        "own: in an array": b"[%s]" % value,
        "own: as text": orjson.dumps(value.decode()),
        "own: comma at the end": value[:-1] + b",}",
        "own: single quotes": value.replace(b'"', b"'"),
        "own: not UTF-8 in an unknown field": _with("Note", b'"\xff"', sound),
        "own: 3,000 deep in an unknown field": _with("Note", b"[" * 3000 + b"]" * 3000, sound),
        "own: larger than a record may be": _with("Note", b'"%s"' % (b"x" * 300_000), sound),
    }
    for field, own in sound.items():
        if own is None:
            continue
        kinds = _OF_TEXTS if isinstance(own, str) else _OF_WHOLE_NUMBERS if isinstance(own, int) else _OF_NUMBERS
        found[f"{field}: missing"] = orjson.dumps({name: each for name, each in sound.items() if name != field})
        found |= {f"{field}: {kind}": _with(field, json, sound) for kind, json in {**kinds, **_OF_ALL}.items()}
    return found


def bad_sales(count: int) -> list[tuple[bytes | None, bytes | None]]:
    """Records (key, value) of poison of topic `pos`, every kind in turn."""
    return [poison[:2] for poison in islice(cycle(POISON.values()), count)]
