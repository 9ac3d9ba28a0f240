"""The real purchases that the demo replays: the CDNOW data set, as shipped (see `data/ORIGIN.md`)."""

from __future__ import annotations

import csv
import io
import lzma
from dataclasses import dataclass
from datetime import date, datetime
from pathlib import Path

_DATA = Path(__file__).parent / "data" / "cdnow_purchases.csv.xz"


@dataclass(frozen=True, slots=True)
class Purchase:
    """One row of the data set. `row` counts from 0; `cents` is the dollar value, exact."""

    row: int
    customer: int
    day: date
    cds: int
    cents: int


def load_purchases(limit: int | None = None) -> list[Purchase]:
    """The first `limit` purchases (None: all 69,659) in the order of the file: by customer, then by date."""
    text = lzma.decompress(_DATA.read_bytes()).decode("ascii")
    rows = list(csv.DictReader(io.StringIO(text)))
    return [_purchase(number, fields) for number, fields in enumerate(rows[:limit])]


def _purchase(row: int, fields: dict[str, str]) -> Purchase:
    whole, _, fraction = fields["dollars"].partition(".")
    return Purchase(
        row=row,
        customer=int(fields["customer_id"]),
        day=datetime.strptime(fields["date"], "%Y%m%d").date(),  # noqa: DTZ007 (a calendar day, no instant)
        cds=int(fields["cds"]),
        cents=int(whole) * 100 + int(fraction.ljust(2, "0")),
    )
