"""What becomes of one invoice: pure functions, run by the app and by tests alike."""

from __future__ import annotations

from dataclasses import dataclass

from spark_apps.records.invoice import Invoice, parse_invoice
from spark_apps.records.leaks import masked_code
from spark_apps.records.masked import CODE_DIGITS, masked_values
from spark_apps.records.purchase import Reached, encode_purchase, encode_reached
from spark_apps.sink.records import BY_KEY, SinkRecord

SOURCE = "source"
"""The header `<topic>/<partition>/<offset>/<line>` of what a record came from, which tells repeats apart."""


@dataclass(frozen=True, slots=True)
class FanoutTopics:
    """Where records come from and go to."""

    pos: str
    shipment: str
    hadoop_sink: str
    purchases: str


def fan_out(
    key: bytes | None,
    value: bytes | None,
    partition: int,
    offset: int,
    *,
    topics: FanoutTopics,
    max_record_bytes: int,
    code_digits: int = CODE_DIGITS,
) -> list[SinkRecord]:
    """A shipment for a home delivery, a masked record for each line item, and a prime customer's purchase.

    Raises:
        PoisonRecordError: the record is no invoice.
    """
    invoice = parse_invoice(key, value, max_record_bytes=max_record_bytes)
    store = invoice.store_id.encode()
    source = b"%b/%d/%d/" % (topics.pos.encode(), partition, offset)
    sink = topics.hadoop_sink
    masked_store = masked_code(invoice.store_id, code_digits).encode()
    records: list[SinkRecord] = [
        (sink, masked_store, line, [(SOURCE, source + b"%d" % number)], BY_KEY)
        for number, line in enumerate(masked_values(invoice, code_digits=code_digits))
    ]
    if invoice.is_home_delivery:
        records.append((topics.shipment, store, value, [(SOURCE, source + b"0")], BY_KEY))
    if invoice.is_prime:
        records.append(_purchase(invoice, partition, offset, topics.purchases))
    return records


def _purchase(invoice: Invoice, partition: int, offset: int, topic: str) -> SinkRecord:
    return topic, invoice.customer_card_no.encode(), encode_purchase(invoice, partition, offset), None, BY_KEY


def reached(partition: int, offset: int, *, topics: FanoutTopics, purchase_partitions: int) -> list[SinkRecord]:
    """What follows a task's last invoice: everybody who reads purchases is to know that there are no others before."""
    value = encode_reached(Reached(partition, offset))
    return [(topics.purchases, None, value, None, number) for number in range(purchase_partitions)]
