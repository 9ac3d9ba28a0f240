"""Rows as tables: their columns, types and refusals, and the same from both clients."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from storekeeper.client.readings import Listing, RankedRow, Row, SessionRow, WindowedRow
from storekeeper.errors import SerializationError
from tests.client.both import Awaiting, Blocking
from tests.client.served_cluster import BEGAN_MS, REWARDS


def test_objects_become_structs_and_fractions_decimals() -> None:
    table = Listing(Row, [Row("a", {"points": Decimal("12.0300")}), Row("b", {"points": 7, "since": "May"})]).to_arrow()
    assert table.column_names == ["key", "value"]
    assert table.schema.field("key").type == pa.string()
    assert table["value"].to_pylist() == [
        {"points": Decimal("12.0300"), "since": None},
        {"points": Decimal("7.0000"), "since": "May"},
    ]


def test_keys_are_binary_if_one_is_no_text() -> None:
    table = Listing(Row, [Row("käse", 1), Row(b"\xff", 2)]).to_arrow()
    assert table.schema.field("key").type == pa.binary()
    assert table["key"].to_pylist() == ["käse".encode(), b"\xff"]


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        (Row, ["key", "value"]),
        (WindowedRow, ["key", "start_ms", "value"]),
        (SessionRow, ["key", "start_ms", "end_ms", "value"]),
        (RankedRow, ["rank", "key", "score", "value"]),
    ],
)
def test_a_table_without_rows_has_its_columns(kind: type, columns: list[str]) -> None:
    assert Listing(kind).to_arrow().column_names == columns
    assert list(Listing(kind).to_pandas().columns) == columns


@pytest.mark.parametrize("values", [(1, "text"), ({"a": 1}, [1]), (2**70,), (Decimal("1E+400"),)])
def test_values_without_a_common_type_are_refused(values: tuple[object, ...]) -> None:
    with pytest.raises(SerializationError, match="the column value has no one type"):
        Listing(Row, [Row("k", value) for value in values]).to_arrow()


def test_a_scan_over_pages_is_one_table(asking: Blocking | Awaiting) -> None:
    frame = asking.call(lambda client: client.key_value("rewards").prefix_scan("card-", page_rows=7).to_pandas())
    assert list(frame.columns) == ["key", "value.CustomerCardNo", "value.Points"]
    assert dict(zip(frame["key"], frame["value.Points"], strict=True)) == {
        key: row["Points"] for key, row in REWARDS.items()
    }


def test_windows_are_a_table(asking: Blocking | Awaiting) -> None:
    table = asking.call(lambda client: client.window("sales").fetch("s1", BEGAN_MS, BEGAN_MS).to_arrow())
    assert table.to_pylist() == [{"key": "s1", "start_ms": BEGAN_MS, "value": {"Total": 0}}]


def test_a_ranking_is_a_table(asking: Blocking | Awaiting) -> None:
    found = asking.call(lambda client: client.ranked("players").top(2)).value
    assert found.to_arrow()["rank"].to_pylist() == [1, 2]
