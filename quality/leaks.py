r"""What a leak of personal data looks like in a text column: regular expressions of Java, which Spark runs.

Two kinds of columns, for the same digits mean different things in them:

Free text (`ItemDescription`, `City`, ...) has no business with long numbers, so any ten digits are a leak, alone or in
the groups that people write: `98891 27612`, `+91-989-012-7612`, `4012 8888 8888 1881`, `98.89.12.76.12`. Groups must be
joined by blanks, dots, hyphens, brackets or invisible characters, and have three digits or more (or all two, or all
one), so that dates, sizes and prices pass: `2026-11-21 500 ml`, `500/1000/2000`.

Codes (`InvoiceNumber`, `ItemCode`, ...) are made of digits. Only a number that stands alone between non-letters and has
more significant digits than `code_digits` is one too many: `9889127612` and `INV-4012888888881881`, but neither
`JUL-0000000042` nor a UUID. Beside it, the groupings that cards are printed in.

No check digit is looked at: a mistyped card number is personal data too, and one in ten numbers has a good one.
Digits are those of any script. The same patterns are looked for in what a text decodes to: `disguised_leak`.
"""

from __future__ import annotations

import re

from quality.decodings import decodings

_DIGIT = r"\p{Nd}"
_JOINT = r"[\p{Z}\p{Cf}.()+-]{1,3}"
_UUID = r"[0-9A-Fa-f]{8}-(?:[0-9A-Fa-f]{4}-){3}[0-9A-Fa-f]{12}"

EMAIL = r"(?U)[\w.%+-]+@[\w-]+(?:\.[\w-]+)*\.\p{L}{2,}"


def _grouped(*least_digits: int) -> str:
    return _JOINT.join(rf"{_DIGIT}{{{least},}}" for least in least_digits)


def _evenly_grouped(size: int, groups: int) -> str:
    return rf"(?<!{_DIGIT}){_DIGIT}{{{size}}}(?:[\p{{Z}}\p{{Cf}}.-]{_DIGIT}{{{size}}}){{{groups - 1},}}(?!{_DIGIT})"


TEN_DIGITS = "|".join(
    [
        _grouped(10),
        *(_grouped(first, 10 - first) for first in range(3, 8)),
        _grouped(3, 3, 4),
        _grouped(3, 4, 3),
        _grouped(4, 3, 3),
        _grouped(3, 3, 3, 3),
        _evenly_grouped(2, 5),
        _evenly_grouped(1, 10),
    ]
)
"""Ten digits or more: a card number, a phone number, an account."""

_FOURS = rf"{_DIGIT}{{4}}[ -]{_DIGIT}{{4}}[ -]{_DIGIT}{{1,7}}"
_SIX_AND_FIVE = rf"{_DIGIT}{{6}}[ -]{_DIGIT}{{4,5}}"
PRINTED_CARD = rf"(?<!{_DIGIT}){_DIGIT}{{4}}[ -](?:{_FOURS}|{_SIX_AND_FIVE})(?!{_DIGIT})"
"""A card number in the groups that it is printed in."""


def long_number(code_digits: int) -> str:
    """A number of more than `code_digits` digits, leading zeros apart, that stands alone; none within a UUID."""
    alone = r"(?<![\p{L}\p{Nd}])"
    return rf"(?s)^(?!{_UUID}$).*{alone}0*(?!0){_DIGIT}{{{code_digits + 1},}}(?![\p{{L}}\p{{Nd}}])"


_PYTHON_CLASSES = {
    r"(?U)": "",
    r"[\p{Z}\p{Cf}": r"[\s\u00ad\u200b-\u200f\u2060-\u2064\ufeff",
    r"\p{Nd}": r"\d",
    r"\p{L}": r"[^\W\d_]",
}


def _python_pattern(java: str) -> re.Pattern[str]:
    for theirs, ours in _PYTHON_CLASSES.items():
        java = java.replace(theirs, ours)
    return re.compile(java)


_LEAKS = tuple(map(_python_pattern, (TEN_DIGITS, EMAIL)))


def disguised_leak(texts: list[str | None]) -> bool:
    """Whether one of the texts decodes to a card or phone number or an email address. None is no text."""
    decoded = (said for text in texts if text for said in decodings(text))
    return any(leak.search(said) for said in decoded for leak in _LEAKS)
