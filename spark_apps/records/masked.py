"""Line items for analysis: flattened, and masked by allow-list. The records of topic `hadoop-sink`.

What is not a field of `HadoopRecord` does not leave. The free texts among them could still repeat what they must not:
the card number, contact number or address line of their own invoice are cut out of them.
"""

from __future__ import annotations

import re
from functools import lru_cache

import msgspec

from spark_apps.records.invoice import Invoice
from spark_apps.records.poison import MAX_RECORD_BYTES, MAX_TEXT_CHARS, Count, Name, Number, StrictDecoder, Text, TimeMs

MASK = "[masked]"
_MIN_SECRET_CHARS = 4
_PHONE_DIGITS = 10  # without the country's code


class HadoopRecord(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "invoice_number": "InvoiceNumber",
        "created_time_ms": "CreatedTime",
        "store_id": "StoreID",
        "pos_id": "PosID",
        "customer_type": "CustomerType",
        "payment_method": "PaymentMethod",
        "delivery_type": "DeliveryType",
        "city": "City",
        "state": "State",
        "pin_code": "PinCode",
        "item_code": "ItemCode",
        "item_description": "ItemDescription",
        "item_price": "ItemPrice",
        "item_qty": "ItemQty",
        "total_value": "TotalValue",
    },
):
    """One line item and what anybody may see of its invoice. `city` to `pin_code` are None without an address."""

    invoice_number: Name
    created_time_ms: TimeMs
    store_id: Name
    pos_id: Text
    customer_type: Text
    payment_method: Text
    delivery_type: Text
    city: Text | None
    state: Text | None
    pin_code: Text | None
    item_code: Text
    item_description: Text
    item_price: Number
    item_qty: Count
    total_value: Number

    def encode(self) -> bytes:
        """The record's value: JSON with every field, null where there is none."""
        return _encode(self)


_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=4)
def _decoder(max_record_bytes: int) -> StrictDecoder[HadoopRecord]:
    return StrictDecoder(HadoopRecord, max_record_bytes=max_record_bytes)


def parse_hadoop_record(
    key: bytes | None, value: bytes | None, *, max_record_bytes: int = MAX_RECORD_BYTES
) -> HadoopRecord:
    """The line item in a record of `hadoop-sink`.

    Raises:
        PoisonRecordError: the record can't be processed; see `StrictDecoder.decode`.
    """
    return _decoder(max_record_bytes).decode(key, value)


def masked_lines(invoice: Invoice) -> list[HadoopRecord]:
    """The invoice's line items, in their order, without anything that tells who the customer is."""
    address = invoice.delivery_address
    masks = _masks(invoice)
    city, state, pin_code = None, None, None
    if address is not None:
        city, state, pin_code = _masked(address.city, masks), _masked(address.state, masks), address.pin_code
    payment_method = _masked(invoice.payment_method, masks)
    return [
        HadoopRecord(
            invoice.invoice_number,
            invoice.created_time_ms,
            invoice.store_id,
            invoice.pos_id,
            invoice.customer_type,
            payment_method,
            invoice.delivery_type,
            city,
            state,
            pin_code,
            line.item_code,
            _masked(line.item_description, masks),
            line.item_price,
            line.item_qty,
            line.total_value,
        )
        for line in invoice.line_items
    ]


class _InvoicePart(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "invoice_number": "InvoiceNumber",
        "created_time_ms": "CreatedTime",
        "store_id": "StoreID",
        "pos_id": "PosID",
        "customer_type": "CustomerType",
        "payment_method": "PaymentMethod",
        "delivery_type": "DeliveryType",
        "city": "City",
        "state": "State",
        "pin_code": "PinCode",
    },
):
    """The fields of a `HadoopRecord` that all lines of an invoice share; a `LineItem` has the others."""

    invoice_number: str
    created_time_ms: int
    store_id: str
    pos_id: str
    customer_type: str
    payment_method: str
    delivery_type: str
    city: str | None
    state: str | None
    pin_code: str | None


def masked_values(invoice: Invoice) -> list[bytes]:
    """The encoded `masked_lines`. Faster, because what all lines share is encoded once."""
    if _masks(invoice):
        return [line.encode() for line in masked_lines(invoice)]
    address = invoice.delivery_address
    shared = _encode(
        _InvoicePart(
            invoice.invoice_number,
            invoice.created_time_ms,
            invoice.store_id,
            invoice.pos_id,
            invoice.customer_type,
            invoice.payment_method,
            invoice.delivery_type,
            None if address is None else address.city,
            None if address is None else address.state,
            None if address is None else address.pin_code,
        )
    )
    head = shared[:-1] + b","
    return [head + _encode(line)[1:] for line in invoice.line_items]


_NUMBER_RUN = re.compile(r"\d(?:[ ()+./-]*\d){3}")
_SEPARATORS = str.maketrans("", "", " ()+./-")
_NOT_DIGITS = re.compile(r"\D+")
_WORDS = re.compile(r"\w+")


def _masks(invoice: Invoice) -> list[re.Pattern[str]]:
    """Patterns of the secrets that this invoice's free texts repeat: nearly always none, and cheaply so."""
    address = invoice.delivery_address
    texts = [line.item_description for line in invoice.line_items]
    texts.append(invoice.payment_method)
    if address is not None:
        texts += address.city, address.state
    joined = "\n".join(texts)
    words = [] if _digits(invoice.customer_card_no) else [invoice.customer_card_no]
    if address is not None:
        words.append(address.address_line)
    masks = [_words_pattern(text) for text in words if _repeats_words(joined, text)]
    if _NUMBER_RUN.search(joined):
        packed = joined.translate(_SEPARATORS)
        masks += [
            _number_pattern(digits)
            for digits in _secret_numbers(invoice)
            if len(digits) >= _MIN_SECRET_CHARS and digits in packed
        ]
    return masks


def _secret_numbers(invoice: Invoice) -> list[str]:
    numbers = [_digits(invoice.customer_card_no)]
    if invoice.delivery_address is not None:
        numbers.append(_digits(invoice.delivery_address.contact_number)[-_PHONE_DIGITS:])
    return numbers


def _digits(number: str) -> str:
    return number if number.isdecimal() else _NOT_DIGITS.sub("", number)


def _repeats_words(texts: str, secret: str) -> bool:
    folded, secret = texts.casefold(), secret.casefold()
    first = _WORDS.search(secret)
    if first is None or first.group() not in folded:
        return False
    words = _WORDS.findall(secret)
    return sum(map(len, words)) >= _MIN_SECRET_CHARS and all(word in folded for word in words)


def _words_pattern(secret: str) -> re.Pattern[str]:
    return re.compile(r"[\W_]*".join(map(re.escape, _WORDS.findall(secret))), re.IGNORECASE)


def _number_pattern(digits: str) -> re.Pattern[str]:
    number = "[ ()+./-]*".join(digits)
    # A short number is a secret only by itself, not as a part of a longer one.
    return re.compile(number if len(digits) >= _PHONE_DIGITS else rf"(?<!\d){number}(?!\d)")


def _masked(text: str, masks: list[re.Pattern[str]]) -> str:
    for mask in masks:
        text = mask.sub(MASK, text)
    # The mask may be longer than what it stands for.
    return text[:MAX_TEXT_CHARS]
