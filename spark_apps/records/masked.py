"""Line items for analysis: flattened, and masked by allow-list. The records of topic `hadoop-sink`.

What is not a field of `HadoopRecord` does not leave. What is one could still hold what it must not: the card number,
contact number or address line of its own invoice are cut out of free texts, and whatever looks like anybody's, plain or
encoded, out of every text; see `leaks`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, repeat

import msgspec

from spark_apps.records.invoice import Invoice, LineItem
from spark_apps.records.leaks import MASK, code_leaks, is_harmless, masked_code, masked_text, said_in_disguise
from spark_apps.records.poison import MAX_RECORD_BYTES, MAX_TEXT_CHARS, Count, Name, Number, StrictDecoder, Text, TimeMs

CODE_DIGITS = 9
"""Longest number that may stand alone in a code, unless a setting says otherwise."""
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


def masked_lines(invoice: Invoice, *, code_digits: int = CODE_DIGITS) -> list[HadoopRecord]:
    """The invoice's line items, in their order, without anything that tells who the customer is."""
    part, lines = _masked_parts(invoice, code_digits)
    return [
        HadoopRecord(
            *(getattr(part, name) for name in part.__struct_fields__),
            *(getattr(line, name) for name in line.__struct_fields__),
        )
        for line in lines
    ]


def masked_values(invoice: Invoice, *, code_digits: int = CODE_DIGITS) -> list[bytes]:
    """The encoded `masked_lines`. Faster, because what all lines share is encoded once."""
    part, lines = _masked_parts(invoice, code_digits)
    head = _encode(part)[:-1] + b","
    return [head + _encode(line)[1:] for line in lines]


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


def _masked_parts(invoice: Invoice, code_digits: int) -> tuple[_InvoicePart, list[LineItem]]:
    address = invoice.delivery_address
    lines = invoice.line_items
    texts = [line.item_description for line in lines]
    codes = [line.item_code for line in lines]
    texts.append(invoice.payment_method)
    codes += invoice.store_id, invoice.pos_id
    number = invoice.invoice_number
    if len(number) > code_digits or not number.isdecimal():
        codes.append(number)  # otherwise it can't leak, and there are too many of them to remember
    city, state, pin_code = None, None, None
    if address is not None:
        city, state, pin_code = address.city, address.state, address.pin_code
        texts += city, state
        codes.append(pin_code)
    plain = all(map(_is_plain, texts))
    masks = _masks(invoice, texts, plain=plain)
    part = _InvoicePart(
        invoice.invoice_number,
        invoice.created_time_ms,
        invoice.store_id,
        invoice.pos_id,
        invoice.customer_type,
        invoice.payment_method,
        invoice.delivery_type,
        city,
        state,
        pin_code,
    )
    # Nearly every invoice; the answers on its texts and codes are remembered from others.
    harmless = not masks and (plain or all(map(is_harmless, texts)))
    if harmless and not any(map(code_leaks, codes, repeat(code_digits))):
        return part, lines
    return _masked_part(part, masks, code_digits), [_masked_line(line, masks, code_digits) for line in lines]


def _masked_part(part: _InvoicePart, masks: list[re.Pattern[str]], code_digits: int) -> _InvoicePart:
    return _InvoicePart(
        masked_code(part.invoice_number, code_digits),
        part.created_time_ms,
        masked_code(part.store_id, code_digits),
        masked_code(part.pos_id, code_digits),
        part.customer_type,
        _masked(part.payment_method, masks),
        part.delivery_type,
        None if part.city is None else _masked(part.city, masks),
        None if part.state is None else _masked(part.state, masks),
        None if part.pin_code is None else masked_code(part.pin_code, code_digits),
    )


def _masked_line(line: LineItem, masks: list[re.Pattern[str]], code_digits: int) -> LineItem:
    code, description = masked_code(line.item_code, code_digits), _masked(line.item_description, masks)
    return LineItem(code, description, line.item_price, line.item_qty, line.total_value)


_NUMBER_RUN = re.compile(r"\d(?:[ ()+./-]*\d){3}")
_SEPARATORS = str.maketrans("", "", " ()+./-")
_NOT_DIGITS = re.compile(r"\D+")
_WORDS = re.compile(r"\w+")


@lru_cache(maxsize=20_000)
def _is_plain(text: str) -> bool:
    """Whether a free text is harmless and can't repeat a number either. Remembered."""
    return is_harmless(text) and _NUMBER_RUN.search(text) is None


def _masks(invoice: Invoice, texts: list[str], *, plain: bool) -> list[re.Pattern[str]]:
    """Patterns of the secrets that this invoice's free texts repeat: nearly always none, and cheaply so.

    `plain` says that all of the texts are.
    """
    address = invoice.delivery_address
    words = [] if _digits(invoice.customer_card_no) else [invoice.customer_card_no]
    if address is not None:
        words.append(address.address_line)
    if plain and not words:
        return []
    if not plain:
        texts = [*texts, *chain.from_iterable(map(said_in_disguise, texts))]
    joined = "\n".join(texts)
    masks = [_words_pattern(text) for text in words if _repeats_words(joined, text)]
    if not plain and _NUMBER_RUN.search(joined):
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
    if masks:
        if any(mask.search(said) for said in said_in_disguise(text) for mask in masks):
            return MASK
        for mask in masks:
            text = mask.sub(MASK, text)
    # The mask may be longer than what it stands for.
    return masked_text(text)[:MAX_TEXT_CHARS]
