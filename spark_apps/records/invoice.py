"""Invoices of the tills: the records of topic `pos`."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from storekeeper import (
    MAX_RECORD_BYTES,
    Count,
    Name,
    Number,
    PoisonRecordError,
    StrictDecoder,
    Text,
    TimeMs,
    has_control_characters,
    json_name,
)

__all__ = ["DeliveryAddress", "Invoice", "InvoiceSerde", "LineItem", "PoisonRecordError", "Sale", "parse_invoice"]


class LineItem(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """One line of an invoice. Prices are numbers as the till wrote them, in the currency's main unit."""

    item_code: Text
    item_description: Text
    item_price: Number
    item_qty: Count
    total_value: Number


class DeliveryAddress(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """Where a home delivery goes. `address_line` and `contact_number` are never exported for analysis."""

    address_line: Text
    city: Text
    state: Text
    pin_code: Text
    contact_number: Text


class Invoice(msgspec.Struct, frozen=True, gc=False, kw_only=True, rename=json_name):
    """One sale. Amounts are numbers as the till wrote them; `money` turns them into exact integers.

    The delivery address is there on every home delivery and may be there on others.
    """

    invoice_number: Name
    created_time_ms: TimeMs
    store_id: Name
    pos_id: Text
    cashier_id: Text
    customer_type: Text
    customer_card_no: Text
    total_amount: Number
    number_of_items: Count
    payment_method: Text
    taxable_amount: Number
    cgst: Number = msgspec.field(name="CGST")
    sgst: Number = msgspec.field(name="SGST")
    cess: Number = msgspec.field(name="CESS")
    delivery_type: Text
    delivery_address: DeliveryAddress | None = None
    line_items: list[LineItem] = msgspec.field(name="InvoiceLineItems")

    @property
    def is_prime(self) -> bool:
        """Whether the customer collects points. In any case of letters."""
        return self.customer_type.lower() == "prime"

    @property
    def is_home_delivery(self) -> bool:
        """Whether the goods go to the customer's address. In any case of letters."""
        return self.delivery_type.lower() == "home-delivery"


class Sale(msgspec.Struct, frozen=True, gc=False):
    """An invoice, and its original bytes."""

    invoice: Invoice
    data: bytes


@lru_cache(maxsize=4)
def _decoder(max_record_bytes: int) -> StrictDecoder[Invoice]:
    return StrictDecoder(Invoice, max_record_bytes=max_record_bytes)


# Compared in lower case: the upper case of some letters outside ASCII is one inside it.
_CUSTOMER_TYPES = frozenset({"prime", "nonprime"})
_DELIVERY_TYPES = frozenset({"home-delivery", "takeaway"})


def parse_invoice(key: bytes | None, value: bytes | None, *, max_record_bytes: int = MAX_RECORD_BYTES) -> Invoice:
    """The invoice in a record of `pos`. Every app that reads `pos` decides by this function what is poison.

    Unknown fields are ignored.

    Raises:
        PoisonRecordError: the record can't be processed; see `StrictDecoder.decode`, and: the customer type or
            delivery type is unknown, a prime customer has no card number, a home delivery has no address,
            a text that may be a key has control characters.
    """
    return _checked(_decoder(max_record_bytes).decode(key, value))


class InvoiceSerde:
    """The invoices of topic `pos`, each with its original bytes."""

    def __init__(self, max_record_bytes: int = MAX_RECORD_BYTES) -> None:
        self._decode = _decoder(max_record_bytes).decode_value

    def deserialize(self, data: bytes) -> Sale:
        """The invoice in a record's value.

        Raises:
            PoisonRecordError: it is not a valid invoice; see `parse_invoice`.
        """
        return Sale(_checked(self._decode(data)), data)

    def serialize(self, value: Sale) -> bytes:
        """The invoice's original bytes."""
        return value.data


def _checked(invoice: Invoice) -> Invoice:
    # All at once: this runs for every invoice, and a pattern for each field takes six times as long.
    codes = [invoice.invoice_number, invoice.store_id, invoice.customer_card_no]
    if has_control_characters("".join([*codes, *[line.item_code for line in invoice.line_items]])):
        raise PoisonRecordError("InvoiceNumber, StoreID, CustomerCardNo or ItemCode has control characters")
    if invoice.customer_type.lower() not in _CUSTOMER_TYPES:
        raise PoisonRecordError("CustomerType is neither PRIME nor NONPRIME")
    if invoice.delivery_type.lower() not in _DELIVERY_TYPES:
        raise PoisonRecordError("DeliveryType is neither HOME-DELIVERY nor TAKEAWAY")
    if not invoice.customer_card_no and invoice.is_prime:
        raise PoisonRecordError("CustomerCardNo of a prime customer is empty")
    if invoice.delivery_address is None and invoice.is_home_delivery:
        raise PoisonRecordError("DeliveryAddress of a home delivery is missing")
    return invoice
