"""The whole POS topology on Quix Streams: `python pos.py BOOTSTRAP GROUP STATE_DIR INVOICES GUARANTEE`.

Shipments, loyalty notifications with running totals, masked line items; the same as `peer.Pos` of the Kafka Streams
peer. It runs until TERM, in an interpreter that has the packages of the lock beside this file. Two processes of one
group share the partitions.
"""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application, State

LOYALTY_FACTOR = 0.02
INVOICE_FIELDS = ("InvoiceNumber", "CreatedTime", "StoreID", "PosID", "CustomerType", "PaymentMethod", "DeliveryType")
ADDRESS_FIELDS = ("City", "State", "PinCode")
TOPICS = ("quix-shipment", "quix-loyalty", "quix-hadoop-sink")
PRODUCER = {"linger.ms": 50, "compression.type": "lz4", "batch.size": 262_144, "partitioner": "murmur2_random"}

Invoice = dict[str, Any]


def notification(invoice: Invoice) -> Invoice:
    """The notification of a prime customer, without the total."""
    return {
        "InvoiceNumber": invoice["InvoiceNumber"],
        "CustomerCardNo": invoice["CustomerCardNo"],
        "TotalAmount": invoice["TotalAmount"],
        "EarnedLoyaltyPoints": invoice["TotalAmount"] * LOYALTY_FACTOR,
    }


def with_total(notified: Invoice, state: State) -> Invoice:
    """The notification with the customer's total, which is kept."""
    total = state.get("total", 0.0) + notified["EarnedLoyaltyPoints"]
    state.set("total", total)
    return {**notified, "TotalLoyaltyPoints": total}


def masked_lines(invoice: Invoice) -> list[Invoice]:
    """The line items, without what tells who the customer is."""
    address = invoice.get("DeliveryAddress") or {}
    shared = {name: invoice[name] for name in INVOICE_FIELDS}
    shared |= {name: address.get(name) for name in ADDRESS_FIELDS}
    return [{**shared, **line} for line in invoice["InvoiceLineItems"]]


def main() -> None:
    """Runs the topology."""
    bootstrap, group, state_dir, invoices, guarantee = sys.argv[1:]
    app = Application(
        broker_address=bootstrap,
        consumer_group=group,
        state_dir=state_dir,
        auto_offset_reset="earliest",
        processing_guarantee="exactly-once" if guarantee == "exactly_once" else "at-least-once",
        commit_interval=0.1 if guarantee == "exactly_once" else 1.0,
        producer_extra_config=PRODUCER,
        loglevel="WARNING",
    )
    shipment, loyalty, hadoop_sink = (app.topic(name, key_serializer="str") for name in TOPICS)
    stream = app.dataframe(app.topic(invoices, key_deserializer="str", value_deserializer="json"))
    stream.filter(lambda invoice: invoice["DeliveryType"] == "HOME-DELIVERY").to_topic(shipment)
    stream.apply(masked_lines, expand=True).to_topic(hadoop_sink)
    notifications = stream.filter(lambda invoice: invoice["CustomerType"] == "PRIME").apply(notification)
    by_card = notifications.group_by("CustomerCardNo", key_serializer="str", key_deserializer="str")
    by_card.apply(with_total, stateful=True).to_topic(loyalty)
    app.run()


if __name__ == "__main__":
    main()
