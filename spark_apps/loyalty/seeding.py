"""How a generation of `loyalty` begins with the totals of the one before. Free of Spark."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from spark_apps.generations.seed_rules import SeedRules
from spark_apps.loyalty.migrations import decode_v1
from spark_apps.loyalty.topology import encode_purchases
from spark_apps.loyalty.upstream import UpstreamMarks, marks_dir

GROUPS = pa.schema(
    [
        ("card", pa.string()),
        ("earned_units", pa.int64()),
        ("invoice_count", pa.int64()),
        ("last_invoice_time_ms", pa.int64()),
        ("purchases", pa.binary()),
        ("batch_id", pa.int64()),
    ]
)
"""The rows that totals are made of: what a customer earned in a batch, or in all time before a seed."""
GROUPS_DDL = (
    "card string, earned_units bigint, invoice_count bigint, last_invoice_time_ms bigint, purchases binary, "
    "batch_id bigint"
)
"""The same as Spark SQL has it."""
SEED_BATCH_ID = -1
"""What a seed's rows bear as their batch: before all others."""
_NO_PURCHASES = encode_purchases([])


def seed_row(key: bytes, value: bytes) -> tuple[Any, ...]:
    """A customer of the store, in version 1, as a row of `GROUPS_DDL`.

    Raises:
        ValueError: key and value are not of the same customer, or the value is none of version 1.
    """
    rewards = decode_v1(value)
    if rewards.CustomerCardNo.encode() != key:
        raise ValueError("the key is not the customer's card")
    units, count, last_ms = rewards.total_units, rewards.InvoiceCount, rewards.LastInvoiceTime
    return rewards.CustomerCardNo, units, count, last_ms, _NO_PURCHASES, SEED_BATCH_ID


def notes(checkpoint_dir: Path, batch_id: int) -> Mapping[str, Any]:
    """The marks at the end of a batch: what tells purchases that come twice."""
    return UpstreamMarks(marks_dir(checkpoint_dir)).after(batch_id)


def begin(checkpoint_dir: Path, noted: Mapping[str, Any]) -> None:
    """Gives a generation that has not started yet the marks to begin with. Safe to repeat."""
    files = UpstreamMarks(marks_dir(checkpoint_dir))
    for partition, marks in noted.items():
        files.write(SEED_BATCH_ID, int(partition), {int(place): offset for place, offset in marks.items()})


SEED_RULES = SeedRules(schema=GROUPS, ddl=GROUPS_DDL, row=seed_row, notes=notes, begin=begin)
