"""Patterns of leaked personal data in texts: regular expressions for Java, which Spark runs, and for Python.

Apps mask with these patterns, and the quality gate checks texts with them.

There are two kinds of columns, because the same digits mean different things in them:

Free text (`ItemDescription`, `City`, ...) needs no long numbers, so any ten digits are a leak, alone or in
the groups that people write: `98891 27612`, `+91-989-012-7612`, `4012 8888 8888 1881`, `98.89.12.76.12`. Groups must be
joined by blanks, dots, hyphens, brackets or invisible characters, and have three digits or more (or all two, or all
one), so that dates, sizes and prices pass: `2026-11-21 500 ml`, `500/1000/2000`.

Codes (`InvoiceNumber`, `ItemCode`, ...) are made of digits. Only a number that stands alone between non-letters and has
more significant digits than `code_digits` is a leak: `9889127612` and `INV-4012888888881881`, but neither
`JUL-0000000042` nor a UUID. So are the groups of printed cards and of written phone numbers.

In both, email addresses are leaks, and postal ones that a pattern finds: a house number, a name, and a word such as
road or nagar; or `Flat No. 4`, `P.O. Box 12`, `c/o Meera Rao`. A name that
stands alone can't be distinguished from other words.

Check digits are ignored: a mistyped card number is personal data too, and one in ten numbers has a valid one.
Digits of any script count. Decodings of a text are searched for the same patterns: `disguised_leak`.

The encoded content of a text: its base64, hexadecimal, percent and character-reference decodings.

An encoded leak is a leak too. The gate looks for the same patterns in a text's decodings, two layers deep, as a link in
a description may be percent-encoded base64. A decoding counts only if it is readable text: so a product code that
happens to be valid base64 is not a decoding.
"""

from __future__ import annotations

import base64
import binascii
import html
import re
import unicodedata
from collections.abc import Callable, Iterator
from functools import lru_cache
from urllib.parse import unquote

_LAYERS = 2
_MAX_DECODINGS = 32
_MAX_CHARS = 4096
_BASE64 = re.compile(r"[A-Za-z0-9+/_-]{8,}={0,2}")
_HEX = re.compile(r"(?:0x)?((?:[0-9A-Fa-f]{2}[\s:]?){5,})")
_HEX_JOINTS = re.compile(r"[\s:]")
_UNREADABLE = frozenset({"Cc", "Cn", "Co"})
_WHITE_SPACE = str.maketrans("\t\n\r", "   ")
_STANDARD_ALPHABET = str.maketrans("-_", "+/")


def decodings(text: str) -> list[str]:
    """The readable decodings of `text` that differ from it, without duplicates; usually none.

    Only the first 4,096 characters are decoded, to at most 32 decodings: longer texts are not descriptions.
    """
    texts: dict[str, None] = {}
    layer = [text[:_MAX_CHARS]]
    for _ in range(_LAYERS):
        fresh = [decoded for encoded in layer for decode in _DECODERS for decoded in decode(encoded)]
        layer = [decoded for decoded in dict.fromkeys(fresh) if decoded != text and decoded not in texts]
        texts.update(dict.fromkeys(layer))
        if len(texts) >= _MAX_DECODINGS:
            break
    return list(texts)[:_MAX_DECODINGS]


def _percent(text: str) -> Iterator[str]:
    if "%" in text:
        yield unquote(text)


def _references(text: str) -> Iterator[str]:
    if "&" in text:
        yield html.unescape(text)


def _compatible(text: str) -> Iterator[str]:
    """Full-width, circled and superscript digits are digits."""
    if not text.isascii():
        yield unicodedata.normalize("NFKC", text)


def _base64(text: str) -> Iterator[str]:
    for run in _BASE64.findall(text):
        core = run.rstrip("=").translate(_STANDARD_ALPHABET)
        if len(core) % 4 != 1:
            yield from _readable(base64.b64decode, core + "=" * (-len(core) % 4))


def _hex(text: str) -> Iterator[str]:
    for run in _HEX.findall(text):
        yield from _readable(bytes.fromhex, _HEX_JOINTS.sub("", run))


def _readable(decode: Callable[[str], bytes], encoded: str) -> Iterator[str]:
    try:
        text = decode(encoded).decode()
    except (binascii.Error, ValueError):
        return
    if not _UNREADABLE.intersection(map(unicodedata.category, text.translate(_WHITE_SPACE))):
        yield text


_DECODERS: tuple[Callable[[str], Iterator[str]], ...] = (_percent, _references, _compatible, _base64, _hex)


_DIGIT = r"\p{Nd}"
_JOINT = r"[\p{Z}\p{Cf}.()+-]{1,3}"
_MARK = r"[\p{Z}\p{Cf}.-]"
_BLANK = r"[\p{Z}\p{Cf}]"
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"

CODE_DIGITS = 9
"""Longest number that may stand alone in a code."""

MASK = "[masked]"
"""Replaces a leak."""

EMAIL = r"(?U)[\w.%+-]+@[\w-]+(?:\.[\w-]+)*\.\p{L}[\p{L}\p{M}]+"

_HOUSE = r"\p{Nd}{1,5}\p{L}{0,2}(?:[/-]\p{Nd}{1,5}\p{L}?)?"
_WAY = (
    r"(?:road|rd|street(?!\W*(?:lamp|light|wear|food))|lane|avenue|ave|marg|nagar|chowk|gali|boulevard|blvd|colony|"
    r"apartments?|society|residency|enclave|bhavan|niwas|vihar|puram|mohalla|highway)"
)
_NAME_OF_WAY = r"(?:[\p{L}\p{Nd}.']{1,30}[\s\p{Z},-]+){1,4}"
_NUMBERED_HOME = (
    r"(?:flat|house|door|plot|apartment|apt|room|h)\.?\s*(?:no\b\.?|number\b|#)\s*(?:[:.-]\s*)?\p{L}?-?\p{Nd}"
)
_POST_BOX = r"p\.?\s?o\.?\s?box\s*(?:no\.?\s*)?\p{Nd}"
_ADDRESSEE = r"(?:c/o|s/o|d/o|attn\.?:?)\s*\p{L}{2}"
ADDRESS = (
    rf"(?i)(?<![\p{{L}}\p{{Nd}}])(?:{_HOUSE}[\s\p{{Z}},]+{_NAME_OF_WAY}{_WAY}(?![\p{{L}}\p{{Nd}}])|"
    rf"{_NUMBERED_HOME}|{_POST_BOX}|{_ADDRESSEE})"
)
"""A postal address, or its addressee."""


def _ten_digits(joint: str, between: str) -> str:
    def grouped(*least_digits: int) -> str:
        return joint.join(rf"{_DIGIT}{{{least},}}" for least in least_digits)

    def evenly(size: int, groups: int) -> str:
        return rf"(?<!{_DIGIT}){_DIGIT}{{{size}}}(?:{between}{_DIGIT}{{{size}}}){{{groups - 1},}}(?!{_DIGIT})"

    threes = ((3, 3, 4), (3, 4, 3), (4, 3, 3), (3, 3, 3, 3))
    pairs = ((first, 10 - first) for first in range(3, 8))
    return "|".join([*(grouped(*groups) for groups in (*pairs, *threes)), evenly(2, 5), evenly(1, 10)])


TEN_DIGITS = rf"{_DIGIT}{{10,}}|{_ten_digits(_JOINT, _MARK)}"
"""Ten digits or more: a card number, a phone number, an account."""

WRITTEN_NUMBER = rf"\+(?:[ .()-]{{0,2}}{_DIGIT}){{10,}}|{_ten_digits(_BLANK, _BLANK)}"
"""A phone number as only phone numbers are written: after a plus sign, or in groups with blanks between them."""

_FOURS = rf"{_DIGIT}{{4}}[ -]{_DIGIT}{{4}}[ -]{_DIGIT}{{1,7}}"
_SIX_AND_FIVE = rf"{_DIGIT}{{6}}[ -]{_DIGIT}{{4,5}}"
PRINTED_CARD = rf"(?<!{_DIGIT}){_DIGIT}{{4}}[ -](?:{_FOURS}|{_SIX_AND_FIVE})(?!{_DIGIT})"
"""A card number in the groups that it is printed in."""


def long_number(code_digits: int) -> str:
    """A number of more than `code_digits` digits, leading zeros apart, that stands alone; none within a UUID."""
    alone = r"(?<![\p{L}\p{Nd}])"
    return rf"(?s)^(?!{_UUID}$).*{alone}0*(?!0){_DIGIT}{{{code_digits + 1},}}(?![\p{{L}}\p{{Nd}}])"


# White space that Python counts as such, and the invisible characters of Unicode's category Cf.
_BLANKS = (
    r"\s\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890-\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e"
    r"\u2060-\u2064\u2066-\u206f\ufeff\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f"
    r"\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0001\U000e0020-\U000e007f"
)
# Words have vowel signs and accents, which are no word characters to Python: beyond ASCII all but white space counts.
_NO_PART_OF_EMAIL = r"\s\x00-\x24\x26-\x2a\x2c\x2f\x3a-\x40\x5b-\x5e\x60\x7b-\x7f"
_PYTHON_CLASSES = {
    r"(?U)[\w.%+-]": rf"[^{_NO_PART_OF_EMAIL}]",
    r"[\w-]": rf"[^{_NO_PART_OF_EMAIL}.%+]",
    r"[\p{L}\p{M}]": rf"[^{_NO_PART_OF_EMAIL}\d.%+_-]",
    r"[\p{L}\p{Nd}.']": r"(?:[^\W_]|[.'])",
    r"[\p{L}\p{Nd}]": r"[^\W_]",
    r"[\s\p{Z}": r"[\s",
    r"[\p{Z}\p{Cf}": rf"[{_BLANKS}",
    r"\p{Nd}": r"\d",
    r"\p{L}": r"[^\W\d_]",
}


def python_pattern(java: str) -> re.Pattern[str]:
    """The same pattern for `re`."""
    for theirs, ours in _PYTHON_CLASSES.items():
        java = java.replace(theirs, ours)
    return re.compile(java)


_EMAIL, _NUMBER, _ADDRESS = map(python_pattern, (EMAIL, f"(?:{TEN_DIGITS})(?:{_JOINT}{_DIGIT}+)*", ADDRESS))
_LEAKS = (_EMAIL, _NUMBER, _ADDRESS)


@lru_cache(maxsize=20_000)
def cached_decodings(text: str) -> tuple[str, ...]:
    """The text's `decodings`, cached."""
    return tuple(decodings(text))


def disguised_leak(texts: list[str | None]) -> bool:
    """Whether one of the texts decodes to a card or phone number, an email or a postal address. None is not text."""
    decoded = (decoding for text in texts if text for decoding in cached_decodings(text))
    return any(leak.search(decoding) for decoding in decoded for leak in _LEAKS)


@lru_cache(maxsize=20_000)
def masked_text(text: str) -> str:
    """A free text with its numbers and email addresses masked, or `MASK` if it holds other leaks or encoded ones.

    Caches many texts, because products are sold more than once.
    """
    masked = _NUMBER.sub(MASK, _EMAIL.sub(MASK, text))
    if any(leak.search(masked) for leak in _LEAKS) or disguised_leak([text, masked]):
        return MASK
    return masked


def masked_code(code: str, code_digits: int) -> str:
    """A code as it is, or `MASK` if there is a leak in it. See `long_number` for `code_digits`."""
    return MASK if code_leaks(code, code_digits) else code


@lru_cache(maxsize=20_000)
def is_harmless(text: str) -> bool:
    """Whether a free text holds no leak and has no decodings. Cached, like `masked_text`."""
    return not cached_decodings(text) and masked_text(text) == text


@lru_cache(maxsize=20_000)
def code_leaks(code: str, code_digits: int) -> bool:
    """Whether there is a leak in a code. Cached."""
    if len(code) <= code_digits and code.isdecimal():
        return False
    return any(leak.search(code) for leak in _code_patterns(code_digits)) or disguised_leak([code])


@lru_cache(maxsize=4)
def _code_patterns(code_digits: int) -> tuple[re.Pattern[str], ...]:
    return tuple(map(python_pattern, (EMAIL, long_number(code_digits), PRINTED_CARD, WRITTEN_NUMBER, ADDRESS)))
