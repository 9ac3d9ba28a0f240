"""The encoded content of a text: its base64, hexadecimal, percent and character-reference decodings.

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
    found: dict[str, None] = {}
    layer = [text[:_MAX_CHARS]]
    for _ in range(_LAYERS):
        fresh = [decoded for encoded in layer for decode in _DECODERS for decoded in decode(encoded)]
        layer = [decoded for decoded in dict.fromkeys(fresh) if decoded != text and decoded not in found]
        found.update(dict.fromkeys(layer))
        if len(found) >= _MAX_DECODINGS:
            break
    return list(found)[:_MAX_DECODINGS]


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
