"""What becomes of one invoice: pure functions, run by the app and by tests alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from spark_apps.records.invoice import parse_invoice
from spark_apps.records.masked import masked_lines


@dataclass(frozen=True, slots=True)
class FanoutTopics:
    """Where records come from and go to."""

    pos: str
    shipment: str
    hadoop_sink: str


class OutputRecord(NamedTuple):
    """A record to be written. `source` is its one header: `<topic>/<partition>/<offset>/<line>` of what it came from.

    A named tuple because a frozen dataclass takes three times as long to make, and there are several an invoice.
    """

    topic: str
    key: bytes
    value: bytes
    source: str


def fan_out(
    key: bytes | None,
    value: bytes | None,
    partition: int,
    offset: int,
    *,
    topics: FanoutTopics,
    max_record_bytes: int,
) -> list[OutputRecord]:
    """A shipment for a home delivery, and a masked record for each line item.

    Raises:
        PoisonRecordError: the record is no invoice.
    """
    invoice = parse_invoice(key, value, max_record_bytes=max_record_bytes)
    store = invoice.store_id.encode()
    source = f"{topics.pos}/{partition}/{offset}/"
    records = [
        OutputRecord(topics.hadoop_sink, store, line.encode(), source + str(number))
        for number, line in enumerate(masked_lines(invoice))
    ]
    if value is not None and invoice.is_home_delivery:
        records.append(OutputRecord(topics.shipment, store, value, source + "0"))
    return records
