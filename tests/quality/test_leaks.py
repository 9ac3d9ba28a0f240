from __future__ import annotations

from base64 import b64encode
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from quality.leaks import EMAIL, PRINTED_CARD, TEN_DIGITS, disguised_leak, long_number

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
    EMAIL: ["a@b.io", "write to meera.k+shop@mail.example.co.in", "<méera@exämple.org>"],
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
    EMAIL: ["2 @ 5.50", "@home", "a@b", "pack of 3@10.5"],
}


@pytest.mark.spark
def test_leaks_are_found_and_harmless_texts_are_not(spark: SparkSession) -> None:
    cases = [(pattern, text, True) for pattern, texts in LEAKS.items() for text in texts]
    cases += [(pattern, text, False) for pattern, texts in HARMLESS.items() for text in texts]
    frame = spark.createDataFrame(cases, "pattern string, text string, leak boolean")
    wrong = frame.selectExpr("pattern", "text", "leak", "text rlike pattern as found").where("found != leak").collect()
    assert [(row.text, "missed" if row.leak else "false alarm", row.pattern[:30]) for row in wrong] == []


@pytest.mark.parametrize("text", LEAKS[TEN_DIGITS] + LEAKS[EMAIL])
def test_a_leak_is_found_in_base64_too(text: str) -> None:
    assert disguised_leak([None, "Tea", b64encode(text.encode()).decode()])


@pytest.mark.parametrize("text", HARMLESS[TEN_DIGITS] + HARMLESS[EMAIL])
def test_a_harmless_text_is_none_in_base64_either(text: str) -> None:
    assert not disguised_leak([b64encode(text.encode()).decode(), quote(text, safe="")])
