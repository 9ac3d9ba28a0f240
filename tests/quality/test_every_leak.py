"""Every column, every kind of personal data, every spelling: what slips behind the masking is held back by the gate."""

from __future__ import annotations

import base64
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from itertools import product
from typing import Any
from urllib.parse import quote

import pytest
from pyspark.sql import SparkSession

from quality.hadoop_export import EXPORT
from storekeeper.clock import ManualClock
from storekeeper.quality.measured_rows import measured
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.suite import CheckedFrame, for_spark, suite_of
from storekeeper.quality.table_gate import TableGate
from storekeeper.quality.verdict import Status
from tests.staged_lines import COLUMNS, SCHEMA, line, stage

pytestmark = pytest.mark.spark

KINDS = {
    "card": "4012888888881881",
    "printed card": "4012 8888 8888 1881",
    "phone": "9889127612",
    "written phone": "+91 98891 27612",
    "email": "meera.canary@example.org",
    "address": "12/4, Canary Park Road",
    "flat": "Flat No. 21, Canary Heights",
}
SPELLINGS: dict[str, Callable[[str], str]] = {
    "plain": str,
    "in a sentence": lambda secret: f"gift, see {secret} please",
    "base64": lambda secret: base64.b64encode(secret.encode()).decode(),
    "base64 for links": lambda secret: base64.urlsafe_b64encode(f"id={secret}".encode()).decode().rstrip("="),
    "hexadecimal": lambda secret: secret.encode().hex(),
    "percent": lambda secret: "".join(f"%{byte:02X}" for byte in secret.encode()),
    "references": lambda secret: "".join(f"&#{ord(letter)};" for letter in secret),
    "full width": lambda secret: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in secret),
    "base64 in percent": lambda secret: quote(base64.b64encode(f"<{secret}>".encode()).decode(), safe=""),
    "base64 twice": lambda secret: base64.b64encode(base64.b64encode(secret.encode())).decode(),
}
TEXTS = [name for name, kind in COLUMNS.items() if kind == "string"]
NUMBERS = ["CreatedTime", "ItemPrice", "ItemQty", "TotalValue", "_partition"]


@dataclass(frozen=True)
class Leak:
    """A line item that says what it must not."""

    column: str
    kind: str
    spelling: str

    def row(self, offset: int) -> dict[str, Any]:
        secret = SPELLINGS[self.spelling](KINDS[self.kind]) if self.column in TEXTS else int(KINDS[self.kind])
        if COLUMNS[self.column].startswith("decimal"):
            secret = Decimal(secret)  # type: ignore[assignment]
        if COLUMNS[self.column] == "int":
            secret = int(str(secret)[:9])  # all of it that fits
        return {**line(offset), self.column: secret}


LEAKS = [Leak(*each) for each in product(TEXTS, KINDS, SPELLINGS)]
LEAKS += [Leak(column, "phone", "plain") for column in NUMBERS]


@pytest.fixture(scope="module")
def failed(spark: SparkSession) -> dict[int, list[str]]:
    """By the number of each leak: the columns whose expectations its row doesn't meet, asked of Spark row by row."""
    rows = [leak.row(number) for number, leak in enumerate(LEAKS)] + [line(len(LEAKS))]
    usable = frozenset(COLUMNS)
    frame = measured(spark.createDataFrame(rows, SCHEMA), None, EXPORT, usable).persist()
    conditions = [
        (str(getattr(expectation, "column", "")), condition)
        for expectation in suite_of(EXPORT, CheckedFrame(frame.columns, usable, for_spark)).expectations
        if (condition := _violation(expectation)) is not None
    ]
    answers = frame.selectExpr("_offset", *(condition for _, condition in conditions)).collect()
    frame.unpersist()
    return {
        number: [column for (column, _), violated in zip(conditions, violations, strict=True) if violated]
        for number, *violations in answers
    }


def _violation(expectation: Any) -> str | None:
    name = getattr(expectation, "column", None)
    regex = getattr(expectation, "regex", None)
    if regex is not None:
        literal = regex.replace("\\", "\\\\").replace("'", "\\'")
        inverted = "NotMatch" in type(expectation).__name__
        return f"{name} is not null and {'' if inverted else 'not'} {name} rlike '{literal}'"
    if hasattr(expectation, "min_value"):
        bounds = [(expectation.min_value, "<"), (expectation.max_value, ">")]
        return " or ".join(f"{name} {sign} {bound}" for bound, sign in bounds if bound is not None)
    return None


@pytest.mark.parametrize("column", [*TEXTS, *NUMBERS])
def test_the_leaks_of_a_column_are_held_back(failed: dict[int, list[str]], column: str) -> None:
    leaks = [(number, leak) for number, leak in enumerate(LEAKS) if leak.column == column]
    assert len(leaks) == (len(KINDS) * len(SPELLINGS) if column in TEXTS else 1)
    assert [leak.row(number) for number, leak in leaks if not {column, "__disguised"} & set(failed[number])] == []


def test_a_good_line_isnt(failed: dict[int, list[str]]) -> None:
    assert failed[len(LEAKS)] == []


def test_the_gate_counts_them_all_and_publishes_none(
    failed: dict[int, list[str]], spark: SparkSession, settings: QualitySettings
) -> None:
    stage(settings, *(leak.row(number) for number, leak in enumerate(LEAKS)), line(len(LEAKS)))
    gate = TableGate(EXPORT, settings, ManualClock(now_ms=1_760_000_000_000), lambda: spark)
    batch = gate.pending()
    assert batch is not None
    verdict = gate.decide(batch)
    assert verdict.status is Status.QUARANTINED
    assert not settings.delta_table("hadoop_export").exists()
    expected = Counter(
        column for columns in failed.values() for column in columns if not column.startswith("__condition")
    )
    found: Counter[str] = Counter()
    for outcome in verdict.outcomes:
        if outcome.column and outcome.column in expected and outcome.failing_rows:
            found[outcome.column] += outcome.failing_rows
    assert found == expected
