"""The examples of docs/how-to/query-with-sql.md run, on tables of the documented columns."""

from __future__ import annotations

import datetime
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from storekeeper.snapshots.sql import query
from tests.snapshots.made_history import Produced, value_of

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "how-to" / "query-with-sql.md").read_text("utf-8")
SQL_BLOCK = re.compile(r"```sql\n(.*?)```", re.DOTALL)
PYTHON_BLOCK = re.compile(r"```python\n(.*?)```", re.DOTALL)
EXAMPLES = SQL_BLOCK.findall(PAGE)
DAY = datetime.date(2026, 1, 2)
NOON = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)


def _write(path: Path, row: dict[str, Any], **kinds: pa.DataType) -> None:
    table = pa.Table.from_pylist([row])
    for name, kind in kinds.items():
        table = table.set_column(table.schema.get_field_index(name), name, table[name].cast(kind))
    write_deltalake(path, table)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("delta")
    money = pa.decimal128(18, 4)
    customer = {
        "CustomerCardNo": "1",
        "TotalLoyaltyPoints": Decimal("12.3400"),
        "InvoiceCount": 2,
        "LastInvoiceTime": NOON,
        "_partition": 0,
        "_offset": 7,
        "_timestamp_ms": 1,
        "_key": b"1",
        "_value": b'{"CustomerCardNo":"1"}',
    }
    _write(root / "rewards", customer, TotalLoyaltyPoints=money)
    names = "InvoiceNumber StoreID PosID CustomerType PaymentMethod DeliveryType City State PinCode ItemCode"
    item: dict[str, Any] = dict.fromkeys([*names.split(), "ItemDescription"], "x")
    item |= {"CreatedTime": 1, "ItemPrice": Decimal(1), "ItemQty": 1, "TotalValue": Decimal(1), "day": DAY}
    _write(root / "hadoop_export", item, ItemPrice=money, TotalValue=money)
    staged = {
        **item,
        "InvoiceNumber": "y",
        "ItemDescription": "9889127612",
        "_partition": 0,
        "_offset": 4,
    }
    _write(root / "hadoop_export_staged", staged, ItemPrice=money, TotalValue=money)
    return root


def test_the_page_has_examples() -> None:
    assert len(EXAMPLES) == 6


@pytest.mark.parametrize("statement", EXAMPLES)
def test_an_example_finds_something(root: Path, statement: str) -> None:
    assert query(root, statement).rows


def test_the_page_makes_frames_of_pandas_and_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    produced = Produced()
    produced.commit([(0, b"c1", value_of("c1", "1.5", 1))])
    produced.commit([(0, b"c2", value_of("c2", "7", 2))])
    produced.write(tmp_path / ".run" / "delta", "rewards")
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    program = PYTHON_BLOCK.findall(PAGE)[1].replace("1767268800000", str(produced.states[0][0]))
    exec(program, names)  # noqa: S102 (the page's)
    assert (len(names["frame"]), names["lazy"].collect().height) == (2, 2)
    assert names["then"]["Card"].tolist() == ["c1"]


def test_the_runbook_of_the_gate_finds_a_leak(root: Path) -> None:
    (statement,) = SQL_BLOCK.findall((DOCS / "how-to" / "quality-gate.md").read_text("utf-8"))
    staged = query(root, "FROM hadoop_export_staged").rows
    assert len(query(root, statement).rows) == sum("9889127612" in row for row in staged) == 1


def test_every_table_and_column_is_documented(root: Path) -> None:
    for table in ("rewards", "hadoop_export", "hadoop_export_staged"):
        assert f"`{table}`" in PAGE
        for column in query(root, f'FROM "{table}" LIMIT 0').columns:
            assert f"`{column.name}`" in PAGE, column.name
