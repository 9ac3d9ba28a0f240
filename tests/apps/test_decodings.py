"""Texts that say in disguise what they must not, and texts that only look so."""

from __future__ import annotations

import base64
import html
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.apps.leaks import decodings

CARD = "4012888888881881"


@pytest.mark.parametrize(
    "text",
    [
        base64.b64encode(CARD.encode()).decode(),
        f"ref {base64.urlsafe_b64encode(CARD.encode()).decode().rstrip('=')} paid",
        CARD.encode().hex(),
        "0x" + CARD.encode().hex().upper(),
        CARD.encode().hex(":"),
        "".join(f"%{ord(digit):02x}" for digit in CARD),
        "".join(f"&#{ord(digit)};" for digit in CARD),
        "".join(chr(ord(digit) + 0xFEE0) for digit in CARD),
        quote(base64.b64encode(f"card={CARD}".encode()).decode()),
        base64.b64encode(base64.b64encode(CARD.encode())).decode(),
        html.escape(base64.b64encode(f"<{CARD}>".encode()).decode()),
    ],
)
def test_a_disguised_number_is_found(text: str) -> None:
    assert any(CARD in decoded for decoded in decodings(text)), decodings(text)


@pytest.mark.parametrize("text", ["", "Cloth Hangers", "500/1000/2000 mm", "Tea & Biscuits 20% off", "STR7188"])
def test_a_plain_text_says_nothing_more(text: str) -> None:
    assert [decoded for decoded in decodings(text) if any(letter.isdigit() for letter in decoded)] == []


@given(st.text(max_size=60))
def test_no_text_is_too_odd(text: str) -> None:
    assert text not in decodings(text)


@given(st.text(st.characters(min_codepoint=33, max_codepoint=0x2FF, categories=["L", "N"]), min_size=9, max_size=40))
def test_what_was_encoded_is_decoded(text: str) -> None:
    assert text in decodings(base64.b64encode(text.encode()).decode()) or not text.isprintable()
    assert text in decodings(text.encode().hex()) or not text.isprintable()


def test_a_long_text_costs_little() -> None:
    assert len(decodings("QUJDREVGR0hJSktM " * 100_000)) <= 32
