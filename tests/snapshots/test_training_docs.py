"""The programs of docs/how-to/make-training-sets.md find what was known then. That for Feast is in `test_feast.py`."""

from __future__ import annotations

import datetime
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from tests.snapshots.made_history import Produced, value_of

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "make-training-sets.md").read_text()
SQL, SPARK, FEAST_SOURCE, FEAST = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
NAMES = {"Card": "CustomerCardNo", "Points": "TotalLoyaltyPoints", "Visits": "InvoiceCount"}
EXPECTED = [(0, None), (1, 1.5), (2, 2.5), (3, None), (4, None)]


def write_shop(folder: Path) -> None:
    """A platform's tables, and labels: before the first change of a key, after each of three, and of no key."""
    produced = Produced()
    for value in (value_of("c1", "1.5", 1), value_of("c1", "2.5", 2), None):
        produced.commit([(0, b"c1", value)])
    produced.write(folder / ".run" / "delta", "rewards", names=NAMES)
    first, second, last = (ms for ms, _ in produced.states)
    times = [first - 1, first, second + 1, last, last]
    labels = {
        "card": ["c1"] * 4 + ["nobody"],
        "at": [datetime.datetime.fromtimestamp(ms / 1000, datetime.UTC) for ms in times],
        "churned": list(range(5)),
    }
    pq.write_table(pa.table(labels), folder / "labels.parquet")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_shop(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_the_program_in_sql(shop: Path) -> None:
    exec(SQL, {})  # noqa: S102 (the page's)
    found = pq.read_table(shop / "training.parquet").to_pylist()
    assert sorted((row["churned"], row["TotalLoyaltyPoints"]) for row in found) == EXPECTED


def test_the_source_for_feast_has_the_deletion(shop: Path) -> None:
    exec(SQL + FEAST_SOURCE, {})  # noqa: S102 (the page's)
    changes = pq.read_table(shop / "cards.parquet").sort_by("updated_at").to_pylist()
    assert [row["TotalLoyaltyPoints"] for row in changes] == [None, 1.5, 2.5, None]


@pytest.mark.spark
def test_the_program_for_spark(shop: Path, spark_session: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(shop / ".run"))
    program = SPARK.replace('.option("changes"', f'.option("tables", "{shop}/.run/delta").option("changes"')
    program = program.replace('"labels.parquet"', f'"{shop}/labels.parquet"')
    names: dict[str, object] = {"spark": spark_session}
    exec(program, names)  # noqa: S102 (the page's)
    training = names["training"]
    assert sorted((row["churned"], row["TotalLoyaltyPoints"]) for row in training.collect()) == EXPECTED  # type: ignore[attr-defined]
