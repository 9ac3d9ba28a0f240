"""A thousand made-up secrets, invoices that carry them in every place and spelling, and a search through all bytes."""

from __future__ import annotations

import base64
import binascii
import io
import json
import re
import zipfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import cycle, islice, product
from pathlib import Path
from typing import Any
from urllib.parse import unquote_to_bytes

import orjson
import pyarrow.parquet as pq

from harness.sales import sale

CANARIES = 1000  # the shapes below have three digits for them


def _card(number: int) -> str:
    digits = f"40077{number:010d}"
    doubled = [int(d) * (2 - i % 2) for i, d in enumerate(digits)]
    return digits + str(-sum(d // 10 + d % 10 for d in doubled) % 10)


KINDS: dict[str, Callable[[int], str]] = {
    "address": lambda number: f"{number + 1}/2, Kanarya{number:04d} Road",
    "phone": lambda number: f"97004{number:05d}",
    "email": lambda number: f"canary{number:04d}@kanarienvogel.example",
    "card": _card,
}
# All zeros of the numbers are in the shapes: a time in microseconds beside a thread's number looked like a phone once.
_SHAPES = re.compile(rb"(?i)Kanarya\d{4}|9700400\d{3}|canary\d{4}@kanarien|400770000000\d{4}")

SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "sentence": lambda secret: f"please ask {secret} first",
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 for links": lambda secret: base64.urlsafe_b64encode(f"ref={secret}".encode()).decode().rstrip("="),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "percent": lambda secret: "".join(f"%{byte:02x}" for byte in secret.encode()),
}


def _line(**changes: Any) -> dict[str, Any]:
    return {"InvoiceLineItems": [sale()["InvoiceLineItems"][0] | changes, sale()["InvoiceLineItems"][1]]}


def _address(**changes: Any) -> dict[str, Any]:
    return {"DeliveryAddress": sale()["DeliveryAddress"] | changes}


PLACES: dict[str, Callable[[str], dict[str, Any]]] = {
    "address line": lambda text: _address(AddressLine=text),
    "address line, repeated": lambda text: _address(AddressLine=text) | _line(ItemDescription=f"for {text.upper()}!"),
    "contact number": lambda text: _address(ContactNumber=text),
    "cashier": lambda text: {"CashierID": text},
    "card number": lambda text: {"CustomerCardNo": text},
    "unknown field": lambda text: {"CustomerName": text, "Remarks": [text, {"also": text}]},
    "unknown name": lambda text: {text: 1},
    "unknown field of the address": lambda text: _address(Landmark=text),
    "unknown field of a line": lambda text: _line(GiftNote=text, Engraving={"deep": {"down": [text]}}),
    "description": lambda text: _line(ItemDescription=text),
    "payment method": lambda text: {"PaymentMethod": text},
    "city": lambda text: _address(City=text),
    "state": lambda text: _address(State=text),
    "pin code": lambda text: _address(PinCode=text),
    "till": lambda text: {"PosID": text},
    "item code": lambda text: _line(ItemCode=text),
    "store": lambda text: {"StoreID": text},
    "invoice number": lambda text: {"InvoiceNumber": text},
    "poison: customer type": lambda text: {"CustomerType": text},
    "poison: time": lambda text: {"CreatedTime": text},
    "poison: amount": lambda text: {"TotalAmount": [text]},
}
PERMITTED = {
    "card number": {"loyalty"},  # what customers are known by there
    "invoice number": {"notifications"},  # the loyalty notification tells which invoice it is about
}


@dataclass(frozen=True, slots=True)
class Canary:
    """One secret and where it was put."""

    number: int
    kind: str
    place: str
    spelling: str

    @property
    def text(self) -> str:
        """What was written."""
        return SPELLINGS[self.spelling](KINDS[self.kind](self.number))

    def record(self) -> tuple[bytes, bytes]:
        """An invoice, as key and value, that carries it."""
        own = {
            "InvoiceNumber": f"7{self.number:07d}",
            "CustomerCardNo": f"55{self.number % 50:06d}",
            "CustomerType": "PRIME" if self.number % 2 else "NONPRIME",
            "DeliveryAddress": sale()["DeliveryAddress"],
        }
        key = self.text if self.place == "store" else f"STR{self.number % 12}"
        return key.encode(), orjson.dumps(sale(**(own | PLACES[self.place](self.text))))


def canaries(count: int = CANARIES) -> list[Canary]:
    """The first `count` of them, and every combination of place, kind and spelling about equally often."""
    combinations = islice(cycle(product(PLACES, KINDS, SPELLINGS)), count)
    return [Canary(number, kind, place, how) for number, (place, kind, how) in enumerate(combinations)]


def sightings(content: bytes, layers: int = 2) -> set[bytes]:
    """What looks like a canary in these bytes, or in what they decode to, whatever the alignment."""
    joined = re.sub(rb"(?<=\d)[ .()+-]{1,3}(?=\d)", b"", content)
    found = {match.lower() for match in _SHAPES.findall(content) + _SHAPES.findall(joined)}
    if layers:
        for decoded in _decoded(content):
            found |= sightings(decoded, layers - 1)
    return found


def _decoded(content: bytes) -> Iterator[bytes]:
    if b"%" in content:
        yield unquote_to_bytes(content)
    if b"\\u" in content:
        yield re.sub(rb"\\u00([0-9a-fA-F]{2})", lambda match: bytes([int(match[1], 16)]), content)
    for run in re.findall(rb"(?:[0-9a-fA-F]{2}[ :]?){8,}", content):
        yield bytes.fromhex(run.decode())
        yield bytes.fromhex(re.sub(rb"[ :]", b"", run)[1:-1].decode())
    for run in re.findall(rb"[A-Za-z0-9+/_-]{10,}", content):
        standard = run.translate(bytes.maketrans(b"-_", b"+/"))
        for start in range(4):
            whole = standard[start : start + (len(standard) - start) // 4 * 4]
            rest = standard[start + len(whole) :]
            if len(rest) > 1:
                whole += rest + b"=" * (4 - len(rest))
            try:
                yield base64.b64decode(whole)
            except binascii.Error:
                continue


def contents(path: Path) -> Iterator[bytes]:
    """The bytes of a file, and what they hold compressed: Parquet cells and statistics, zip members, gzip and zlib."""
    raw = path.read_bytes()
    yield raw
    if raw[:4] == b"PAR1":
        table = pq.read_table(io.BytesIO(raw))
        for column in table.columns:
            yield "\n".join(map(str, column.to_pylist())).encode()
            yield b"\n".join(cell for cell in column.to_pylist() if isinstance(cell, bytes))
        yield str(pq.read_metadata(io.BytesIO(raw)).to_dict()).encode()
    elif raw[:4] == b"PK\x03\x04":
        with zipfile.ZipFile(io.BytesIO(raw)) as archive:
            yield from (archive.read(name) for name in archive.namelist())
    elif raw[:2] == b"\x1f\x8b":
        yield zlib.decompress(raw, wbits=31)


def described(found: set[bytes]) -> list[str]:
    """Sightings in words, with the place that each came from."""
    places = {key: canary for canary in canaries() for key in sightings(KINDS[canary.kind](canary.number).encode(), 0)}
    return sorted(
        f"{text.decode()} ({json.dumps(places[text].place)})" if text in places else repr(text) for text in found
    )
