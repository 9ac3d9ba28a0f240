"""What a declaration of a table may say, and what is refused when it is loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from quality.hadoop_export import EXPORT
from spark_apps.hadoop_export import HADOOP_EXPORT
from spark_apps.pos import POS, with_tiers
from storekeeper.apps.checked_table import CheckedColumn, CheckedTable, Condition, Leaks, WithTable, WithTopic
from storekeeper.apps.registry import check_distinct, gated_tables
from storekeeper.apps.topology_app import with_topology
from storekeeper.errors import ConfigurationError

PRICE = CheckedColumn("price", "decimal(18,4)")


def table(*columns: CheckedColumn, **rules: Any) -> CheckedTable:
    return CheckedTable("orders", (PRICE, *columns), **rules)


def of(sql_type: str, **rules: Any) -> CheckedTable:
    return table(CheckedColumn("it", sql_type, **rules))


MISTAKES: list[tuple[Callable[[], CheckedTable], str]] = [
    (lambda: table(CheckedColumn("it;", "int")), "column it; can't name a column"),
    (lambda: table(CheckedColumn("__it", "int")), "column __it can't name a column"),
    (lambda: of("text"), "column it has a type that a table can't have"),
    (lambda: of("decimal(18, 4)"), r"column it has the type decimal\(18, 4\): write it without blanks"),
    (lambda: of("string", least=1), "column it has a range and is a string: only numbers have ranges"),
    (lambda: of("int", least=2, most=1), "column it has a range from 2 to 1, which holds nothing"),
    (lambda: of("double", allowed=(1,)), "column it has allowed values and is a double"),
    (lambda: of("string", allowed=("a", 1)), "column it has an allowed value that is not a string"),
    (lambda: of("int", allowed=("a",)), "column it has an allowed value that is not a int"),
    (lambda: of("string", any_case=True), "column it has any_case"),
    (lambda: of("int", leaks=Leaks.TEXT), "column it has leaks=TEXT and is a int: use it for a string"),
    (lambda: of("bigint", least=0, leaks=Leaks.NUMBER), "column it has leaks=NUMBER, which needs a number's type"),
    (lambda: of("string", drift=True), "column it has drift, and is neither"),
    (lambda: of("string", allowed=("it's",), drift=True), "an allowed value with a quote"),
    (lambda: table(CheckedColumn("PRICE", "int")), "column price is declared 2 times"),
    (lambda: table(unique=("id",)), "unique names column id, which isn't declared"),
    (lambda: table(partition_by=("day",)), "partition_by names column day, which isn't declared"),
    (lambda: table(conditions=(Condition("x", "{cost} > 1"),)), r"condition '\{cost\} > 1' names column cost"),
    (lambda: table(reconcile=(WithTable("bills", ("day",)),)), "reconcile with table bills names column day"),
    (lambda: table(reconcile=(WithTopic("t", lambda *_: None, sum="x"),)), "reconcile with topic t names column x"),
    (
        lambda: table(CheckedColumn("it", "double"), reconcile=(WithTable("bills", sum="it"),)),
        "reconcile with table bills sums up it, a double: use a whole number or a decimal",
    ),
]


@pytest.mark.parametrize(("declared", "mistake"), MISTAKES)
def test_a_mistake_is_refused_by_the_names_of_table_and_column(
    declared: Callable[[], CheckedTable], mistake: str
) -> None:
    with pytest.raises(ConfigurationError, match=f"the declaration of table orders is wrong: .*{mistake}"):
        declared()


def test_a_brace_that_is_alone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"condition '\{price > 1' has a brace that is alone"):
        Condition("x", "{price > 1")


def test_all_mistakes_are_said_at_once() -> None:
    with pytest.raises(ConfigurationError, match=r"column it has a range.*; unique names column id"):
        table(CheckedColumn("it", "string", most=1), unique=("id",))


def test_technical_columns_are_not_published() -> None:
    assert table(CheckedColumn("_offset", "bigint"), unique=("_offset",)).published_columns == ("price",)
    with pytest.raises(ConfigurationError, match="table orders is wrong: no column is published"):
        replace(HADOOP_EXPORT, tables=(CheckedTable("orders", (CheckedColumn("_offset", "bigint"),)),))


def test_an_app_declares_a_table_once() -> None:
    with pytest.raises(ConfigurationError, match="app hadoop_export declares table hadoop_export more than once"):
        replace(HADOOP_EXPORT, tables=(EXPORT, EXPORT))


@pytest.mark.parametrize(
    ("declared", "mistake"),
    [
        (CheckedTable("rewards", (CheckedColumn("Points", "int"),)), "it has no field Points; its fields are Customer"),
        (
            CheckedTable("rewards", (CheckedColumn("InvoiceCount", "int"),)),
            "column InvoiceCount is declared as int, and the field is bigint",
        ),
        (
            CheckedTable("rewards", (CheckedColumn("InvoiceCount", "bigint"),), partition_by=("InvoiceCount",)),
            "it has neither partition_by nor WithTopic",
        ),
    ],
)
def test_what_does_not_fit_a_store_is_refused(declared: CheckedTable, mistake: str) -> None:
    with pytest.raises(ConfigurationError, match=f"table rewards doesn't fit store rewards: .*{mistake}"):
        replace(POS, tables=(declared,))


def test_what_is_said_about_a_store_is_left_out_in_a_generation_with_other_rows() -> None:
    same = CheckedTable("rewards", (CheckedColumn("InvoiceCount", "bigint", most=9),))
    other = CheckedTable("rewards", (CheckedColumn("TotalLoyaltyPoints", "decimal(18,4)", most=9),))
    assert with_topology(replace(POS, tables=(same,)), with_tiers).tables == (same,)
    assert with_topology(replace(POS, tables=(other,)), with_tiers).tables == ()


@pytest.mark.parametrize("name", ["hadoop_export", "rewards", "rewards_history"])
def test_two_apps_do_not_write_one_table(name: str) -> None:
    own = replace(HADOOP_EXPORT, name="own", tables=(CheckedTable(name, (PRICE,)),), table_sink=None)
    others = {"pos": POS, "hadoop_export": HADOOP_EXPORT}
    with pytest.raises(ConfigurationError, match=f"and own both write a table {name}: rename one of them"):
        check_distinct(own, others, "shared_driver")


def test_the_retail_suite_is_one_of_the_declarations() -> None:
    assert gated_tables()["hadoop_export"] == EXPORT
