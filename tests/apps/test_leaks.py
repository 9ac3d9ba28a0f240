from __future__ import annotations

import sys
import unicodedata
from base64 import b64encode
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from storekeeper.apps.leaks import (
    ADDRESS,
    EMAIL,
    MASK,
    PRINTED_CARD,
    TEN_DIGITS,
    WRITTEN_NUMBER,
    disguised_leak,
    long_number,
    masked_code,
    masked_text,
    python_pattern,
)

LONG_NUMBER = long_number(9)
LEAKS = {
    TEN_DIGITS: [
        "4629185211",
        "call 9889127612 now",
        "x9889127612x",
        "98891 27612",
        "98891-27612",
        "+91 98891 27612",
        "+91-989-012-7612",
        "(022) 2345-6789",
        "022 23456789",
        "4012888888881881",
        "4012 8888 8888 1881",
        "3782-822463-10005",
        "98.89.12.76.12",
        "9 8 8 9 1 2 7 6 1 2",
        "98891\u200b27612",
        "98891\u00a027612",
        "٩٨٨٩١٢٧٦١٢",
        "9889127612",
    ],
    LONG_NUMBER: [
        "4629185211",
        "INV-4629185211",
        "a/9889127612/b",
        "09889127612",
        "code 4012888888881881",
        "x\n4629185211",
    ],
    PRINTED_CARD: ["4012 8888 8888 1881", "INV/4012-8888-8888-1881", "3782 822463 10005"],
    WRITTEN_NUMBER: ["+91 98891 27612", "+919889127612", "INV 98891 27612", "022 2345 6789", "98 89 12 76 12"],
    ADDRESS: [
        "12, MG Road",
        "444-1842 Something Street",
        "221B Baker Street, Pune",
        "deliver to 12/4 Old\u00a0Fort Road please",
        "7 2nd Cross, Gandhi Nagar",
        "Flat No. 4B, Rosewood",
        "h.no. 8-2-293",
        "P.O. Box 1234",
        "c/o Meera Rao",
    ],
    EMAIL: ["a@b.io", "write to meera.k+shop@mail.example.co.in", "<méera@exämple.org>", "x@डाटा.in", "राम@डाटा.भारत"],
}
HARMLESS = {
    TEN_DIGITS: [
        "Ulhasnagar",
        "Cloth Hangers",
        "2026-11-21 500 ml",
        "21-11-26",
        "500/1000/2000 mm",
        "1,000,000,000",
        "10 x 20 x 30 cm",
        "123456789",
        "12.50",
        "[masked]",
        "9 8 7",
        "",
    ],
    LONG_NUMBER: [
        "51402977",
        "STR7188",
        "JUL-0000000042",
        "INV1700000000000",
        "550e8400-e29b-41d4-a716-446655440000",
        "123456789",
        "2026-11-21-000017",
        "00000000000000000042",
    ],
    PRINTED_CARD: ["2026-11-21", "1234-5678", "12345-678901-2345", "1234-5678-9012"],
    WRITTEN_NUMBER: ["JUL-0000000042", "2026-11-21-000017", "A 123 B 456", "98891-27612", "12345 6789"],
    ADDRESS: [
        "Street lamp",
        "Wine glass 12",
        "2 LED street lamps",
        "Nagpur oranges, 2 kg",
        "Ulhasnagar",
        "TV 55 inch, flat",
        "Roadster 12",
        "w/o sugar",
        "1842 pieces",
    ],
    EMAIL: ["2 @ 5.50", "@home", "a@b", "pack of 3@10.5"],
}


@pytest.mark.spark
def test_leaks_are_found_and_harmless_texts_are_not(spark_session: SparkSession) -> None:
    cases = [(pattern, text, True) for pattern, texts in LEAKS.items() for text in texts]
    cases += [(pattern, text, False) for pattern, texts in HARMLESS.items() for text in texts]
    frame = spark_session.createDataFrame(cases, "pattern string, text string, leak boolean")
    wrong = frame.selectExpr("pattern", "text", "leak", "text rlike pattern as found").where("found != leak").collect()
    assert [(row.text, "missed" if row.leak else "false alarm", row.pattern[:30]) for row in wrong] == []


@pytest.mark.parametrize("text", LEAKS[TEN_DIGITS] + LEAKS[EMAIL] + LEAKS[ADDRESS])
def test_a_leak_is_found_in_base64_too(text: str) -> None:
    assert disguised_leak([None, "Tea", b64encode(text.encode()).decode()])


@pytest.mark.parametrize("text", HARMLESS[TEN_DIGITS] + HARMLESS[EMAIL] + HARMLESS[ADDRESS])
def test_a_harmless_text_is_none_in_base64_either(text: str) -> None:
    assert not disguised_leak([b64encode(text.encode()).decode(), quote(text, safe="")])


@given(
    st.text(max_size=30), st.sampled_from([text for texts in LEAKS.values() for text in texts]), st.text(max_size=30)
)
def test_masked_text_holds_no_leak_whatever_is_around_it(before: str, leak: str, after: str) -> None:
    masked = masked_text(before + leak + after)
    assert not any(python_pattern(pattern).search(masked) for pattern in (TEN_DIGITS, EMAIL, ADDRESS))
    assert not disguised_leak([masked])


@pytest.mark.parametrize("text", ["h#1", "apt#4", "c/oab", "a@b.℡", "㊿㊿㊿㊿㊿", "℅ﬀ"])
def test_a_leak_of_few_characters_is_masked(text: str) -> None:
    assert masked_text(text) == MASK


def test_each_blank_and_each_invisible_character_joins_digits() -> None:
    kinds = ((chr(code), unicodedata.category(chr(code))) for code in range(sys.maxunicode + 1))
    joints = [character for character, kind in kinds if kind == "Cf" or kind.startswith("Z")]
    assert [hex(ord(joint)) for joint in joints if masked_text(f"98891{joint}27612") != MASK] == []


@pytest.mark.parametrize("leak", [text for pattern, texts in LEAKS.items() for text in texts if pattern != TEN_DIGITS])
def test_a_code_that_leaks_is_masked_as_a_whole(leak: str) -> None:
    assert masked_code(leak, 9) == MASK
    assert masked_code(b64encode(leak.encode()).decode(), 9) == MASK


@pytest.mark.parametrize("code", [*HARMLESS[LONG_NUMBER], "548", "0000000042", "ZWF0IG1vcmUgY2hlZXNl"])
def test_other_codes_are_left_alone(code: str) -> None:
    assert masked_code(code, 9) == code
