"""Line items for analysis: flattened, and masked by allow-list. The records of topic `hadoop-sink`.

Only the fields of `HadoopRecord` are exported. They could still hold personal data. So the card number, contact number
and address line of their own invoice are masked in free texts, and whatever looks like anybody's, plain or encoded, in
every text; see `leaks`.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain

import msgspec

from spark_apps.records.invoice import Invoice, LineItem
from storekeeper import (
    CODE_DIGITS,
    MASK,
    MAX_RECORD_BYTES,
    MAX_TEXT_CHARS,
    Count,
    Name,
    Number,
    StrictDecoder,
    Text,
    TimeMs,
    cached_decodings,
    code_leaks,
    is_harmless,
    json_name,
    masked_code,
    masked_text,
)

_MIN_SECRET_CHARS = 4
_PHONE_DIGITS = 10  # without the country's code


class InvoicePart(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """The public fields that all lines of an invoice share. `city` to `pin_code` are None without an address."""

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


class HadoopRecord(InvoicePart, frozen=True, gc=False):
    """One line item and the public fields of its invoice."""

    item_code: Text
    item_description: Text
    item_price: Number
    item_qty: Count
    total_value: Number


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


def masked_values(invoice: Invoice) -> list[bytes]:
    """The values of the invoice's line items, in their order, without anything that identifies the customer.

    What all lines share is encoded once.
    """
    part, lines = _masked_parts(invoice)
    head = _encode(part)[:-1] + b","
    return [head + _encode(line)[1:] for line in lines]


def _masked_parts(invoice: Invoice) -> tuple[InvoicePart, list[LineItem]]:
    address = invoice.delivery_address
    part = InvoicePart(
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
    if _is_clean(invoice):
        return part, invoice.line_items
    masks = _masks(invoice)
    return _masked_part(part, masks), [_masked_line(line, masks) for line in invoice.line_items]


def _is_clean(invoice: Invoice) -> bool:
    """Whether there is certainly nothing to mask: a cheap check that nearly every invoice passes.

    The results for single texts and codes are cached across invoices.
    """
    number, address = invoice.invoice_number, invoice.delivery_address
    # A short number can't leak, and there are too many of them to remember.
    short = len(number) <= CODE_DIGITS and number.isdecimal()
    if (not short and code_leaks(number, CODE_DIGITS)) or code_leaks(invoice.store_id, CODE_DIGITS):
        return False
    if code_leaks(invoice.pos_id, CODE_DIGITS) or not _is_plain(invoice.payment_method):
        return False
    for line in invoice.line_items:
        if not _is_plain_line(line.item_code, line.item_description):
            return False
    return _repeats_no_words(invoice) and (
        address is None
        or (_is_plain(address.city) and _is_plain(address.state) and not code_leaks(address.pin_code, CODE_DIGITS))
    )


def _repeats_no_words(invoice: Invoice) -> bool:
    """Whether the texts repeat no secret made of words: neither the address line nor a card that isn't a number."""
    card, address = invoice.customer_card_no, invoice.delivery_address
    if not card.isdecimal() and _has_letters(card):
        return False
    return address is None or not _repeats_words("\n".join(_texts(invoice)), address.address_line)


@lru_cache(maxsize=20_000)
def _is_plain(text: str) -> bool:
    """Whether a free text neither holds a leak nor can repeat an invoice's own numbers."""
    return is_harmless(text) and _NUMBER_RUN.search(text) is None


@lru_cache(maxsize=20_000)
def _is_plain_line(code: str, description: str) -> bool:
    return _is_plain(description) and not code_leaks(code, CODE_DIGITS)


def _texts(invoice: Invoice) -> list[str]:
    """The free texts that are exported."""
    texts = [line.item_description for line in invoice.line_items]
    texts.append(invoice.payment_method)
    if invoice.delivery_address is not None:
        texts += invoice.delivery_address.city, invoice.delivery_address.state
    return texts


def _masked_part(part: InvoicePart, masks: list[re.Pattern[str]]) -> InvoicePart:
    return InvoicePart(
        masked_code(part.invoice_number, CODE_DIGITS),
        part.created_time_ms,
        masked_code(part.store_id, CODE_DIGITS),
        masked_code(part.pos_id, CODE_DIGITS),
        part.customer_type,
        _masked(part.payment_method, masks),
        part.delivery_type,
        None if part.city is None else _masked(part.city, masks),
        None if part.state is None else _masked(part.state, masks),
        None if part.pin_code is None else masked_code(part.pin_code, CODE_DIGITS),
    )


def _masked_line(line: LineItem, masks: list[re.Pattern[str]]) -> LineItem:
    code, description = masked_code(line.item_code, CODE_DIGITS), _masked(line.item_description, masks)
    return LineItem(code, description, line.item_price, line.item_qty, line.total_value)


_NUMBER_RUN = re.compile(r"\d(?:[ ()+./-]*\d){3}")
_SEPARATORS = str.maketrans("", "", " ()+./-")
_NOT_DIGITS = re.compile(r"\D+")
_WORDS = re.compile(r"\w+")
_ANY_TEXT = re.compile(r".+", re.DOTALL)


def _masks(invoice: Invoice) -> list[re.Pattern[str]]:
    """Patterns of the secrets that this invoice's free texts repeat, as they are or in disguise."""
    texts = _texts(invoice)
    joined = "\n".join([*texts, *chain.from_iterable(map(cached_decodings, texts))])
    card = invoice.customer_card_no
    words = [] if _digits(card) else [card]
    if invoice.delivery_address is not None:
        words.append(invoice.delivery_address.address_line)
    masks = [_words_pattern(text, joined) for text in words if _repeats_words(joined, text)]
    if _digits(card) and _has_letters(card):
        characters = [character for character in card if character.isalnum()]
        masks += [_between_anything(characters)] if len(characters) >= _MIN_SECRET_CHARS else []
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


def _has_letters(text: str) -> bool:
    return any(map(str.isalpha, text))


def _words_pattern(secret: str, texts: str) -> re.Pattern[str]:
    """A pattern of a secret's words; of any text if they are there only in letters that fold to others, as in ß."""
    pattern = _between_anything(_WORDS.findall(secret))
    if pattern.search(texts) is None and _between_anything(_WORDS.findall(secret.casefold())).search(texts.casefold()):
        return _ANY_TEXT
    return pattern


def _between_anything(words: list[str]) -> re.Pattern[str]:
    return re.compile(r"[\W_]*".join(map(re.escape, words)), re.IGNORECASE)


def _number_pattern(digits: str) -> re.Pattern[str]:
    number = "[ ()+./-]*".join(digits)
    # A short number is a secret only by itself, not as a part of a longer one.
    return re.compile(number if len(digits) >= _PHONE_DIGITS else rf"(?<!\d){number}(?!\d)")


def _masked(text: str, masks: list[re.Pattern[str]]) -> str:
    if masks:
        if any(mask.search(decoding) for decoding in cached_decodings(text) for mask in masks):
            return MASK
        for mask in masks:
            text = mask.sub(MASK, text)
    # The mask may be longer than the text that it replaces.
    return masked_text(text)[:MAX_TEXT_CHARS]
