from __future__ import annotations

from decimal import Decimal

import pytest
from pyspark.sql import SparkSession

from quality.hadoop_export import EXPORT
from storekeeper.quality.profile import buckets_of, counted, drift, merged, stability_index
from tests.staged_lines import COLUMNS, SCHEMA, line


@pytest.mark.spark
def test_a_profile_counts_buckets_and_repeats_no_value(spark: SparkSession) -> None:
    rows = [
        line(1, CustomerType="Prime", ItemQty=3, TotalValue=Decimal("59.97")),
        line(2, CustomerType="9889127612", ItemQty=700, TotalValue=Decimal("-5.00")),
        line(3, DeliveryType="TAKEAWAY", ItemQty=1, TotalValue=Decimal("64.00")),
    ]
    assert counted(spark.createDataFrame(rows, SCHEMA), buckets_of(EXPORT, frozenset(COLUMNS))) == {
        "CustomerType": {"prime": 2, "other": 1},
        "DeliveryType": {"home-delivery": 2, "takeaway": 1},
        "TotalValue": {"2^5": 1, "2^6": 1, "negative": 1},
        "ItemQty": {"1": 1, "3": 1, "2^9": 1},
    }


def test_equal_shares_do_not_differ_whatever_the_counts() -> None:
    assert stability_index({"a": 100, "b": 300}, {"a": 1000, "b": 3000}) == pytest.approx(0)
    assert stability_index({}, {"a": 1}) == 0


def test_the_index_is_as_defined() -> None:
    # (0.5 - 0.2) ln 2.5 + (0.5 - 0.8) ln 0.625
    assert stability_index({"a": 20, "b": 80}, {"a": 50, "b": 50}) == pytest.approx(0.4159, abs=1e-4)


def test_a_shift_is_an_outcome_that_fails() -> None:
    usual = merged([{"CustomerType": {"prime": 300, "nonprime": 300}}] * 3)
    assert [outcome.passed for outcome in drift(usual, {"CustomerType": {"prime": 260, "nonprime": 240}})] == [True]
    (shifted,) = drift(usual, {"CustomerType": {"prime": 40, "nonprime": 960}})
    assert not shifted.passed
    assert (shifted.rule, shifted.column) == ("drift", "CustomerType")


def test_few_rows_say_nothing() -> None:
    usual = {"CustomerType": {"prime": 5000}}
    assert drift(usual, {"CustomerType": {"nonprime": 499}}) == []
    assert drift({}, {"CustomerType": {"nonprime": 5000}}) == []
