"""What the masked export must be, as a Great Expectations suite.

The suite checks a frame of the staged columns and of those that `measured` adds; both lists are exact. The `notes` of
an expectation say what it is for; verdicts and Data Docs show them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import great_expectations.expectations as gxe
from great_expectations import ExpectationSuite
from great_expectations.expectations import Expectation
from pyspark.sql import Column, DataFrame, functions
from pyspark.sql.types import IntegerType, StringType

from spark_apps.apps.records.leaks import (
    ADDRESS,
    EMAIL,
    PRINTED_CARD,
    TEN_DIGITS,
    WRITTEN_NUMBER,
    disguised_leak,
    long_number,
)

EXPORT_FIELDS = (
    "InvoiceNumber",
    "CreatedTime",
    "StoreID",
    "PosID",
    "CustomerType",
    "PaymentMethod",
    "DeliveryType",
    "City",
    "State",
    "PinCode",
    "ItemCode",
    "ItemDescription",
    "ItemPrice",
    "ItemQty",
    "TotalValue",
)
"""The allow-list: the fields of `hadoop-sink`, in their order. Nothing else about a customer leaves."""

DAY = "day"
"""The date of `CreatedTime` in UTC, by which the table is partitioned."""

PUBLISHED_COLUMNS = (*EXPORT_FIELDS, DAY)
LINE_KEY = ("_partition", "_offset")
"""Technical columns of the staged table: the place of a line item in topic `hadoop-sink`."""

_NULLABLE = frozenset({"City", "State", "PinCode"})  # null without a delivery address
_FREE_TEXTS = ("PaymentMethod", "City", "State", "ItemDescription")
_CODES = ("InvoiceNumber", "StoreID", "PosID", "PinCode", "ItemCode")
_COPIES = "_copies"
_TOTAL_DIFFERENCE = "_total_difference"
_DISGUISED = "_disguised"
_MEASURED = (_COPIES, _TOTAL_DIFFERENCE, _DISGUISED)
# A phone number has ten digits; as a time it would be in 1970, and a card number far beyond the year 9999.
_BOUNDS = {
    "CreatedTime": (631_152_000_000, 253_402_300_799_999),  # from 1990: tills may replay old records
    "ItemPrice": (-999_999_999, 999_999_999),
    "ItemQty": (-999_999_999, 999_999_999),
    "TotalValue": (-999_999_999, 999_999_999),
    "_partition": (0, 999_999),
}
_RELATIVE_ERROR = 1e-9  # what binary floating point may lose in a product


TOTAL_TOLERANCE = 0.01
"""Largest difference between ItemPrice x ItemQty and TotalValue, in currency: a total is rounded to a hundredth."""


@dataclass(frozen=True, slots=True)
class SuiteOptions:
    """The limits of the checks."""

    code_digits: int
    total_tolerance: float


def measured(batch: DataFrame, earlier: DataFrame | None) -> DataFrame:
    """The batch with an extra column for each check that the suite can't do on a row alone. Rows don't change.

    `_copies` counts the rows of the batch and of `earlier`, the staged table before it, that have the row's key; rows
    of the same key have the same day. `_total_difference` is how far TotalValue is from ItemPrice x ItemQty.
    `_disguised` is 1 where a text of any column decodes to a leak, and 0 elsewhere. A batch that lacks the columns for
    the first two gets the last one alone.
    """
    if not {*LINE_KEY, DAY, "ItemPrice", "ItemQty", "TotalValue"} <= set(batch.columns):
        return batch.withColumn(_DISGUISED, _disguised(batch))
    keys = batch.select(*LINE_KEY)
    if earlier is not None:
        days = batch.select(DAY).distinct()
        keys = keys.unionByName(earlier.join(functions.broadcast(days), DAY, "left_semi").select(*LINE_KEY))
    copies = keys.groupBy(*(functions.col(name).alias(f"_counted{name}") for name in LINE_KEY)).agg(
        functions.count("*").alias(_COPIES)
    )
    same_key = [functions.col(name).eqNullSafe(functions.col(f"_counted{name}")) for name in LINE_KEY]
    total = functions.col("TotalValue").cast("double")
    product = functions.col("ItemPrice").cast("double") * functions.col("ItemQty").cast("double")
    difference = functions.abs(product - total) - functions.abs(total) * _RELATIVE_ERROR
    counted = batch.withColumn(_DISGUISED, _disguised(batch)).join(copies, same_key, "left")
    return counted.select(*batch.columns, _DISGUISED, _COPIES, difference.alias(_TOTAL_DIFFERENCE))


def _disguised(batch: DataFrame) -> Column:
    texts = [functions.col(field.name) for field in batch.schema if isinstance(field.dataType, StringType)]
    found = functions.udf(lambda *values: int(disguised_leak(list(values))), IntegerType())
    return found(*texts) if texts else functions.lit(0)


def export_suite(options: SuiteOptions, columns: list[str]) -> ExpectationSuite:
    """The suite for a frame that has `columns`. Checks of a missing column are left out: its absence fails already."""
    expectations = [each for each in _expectations(options) if getattr(each, "column", columns[0]) in columns]
    return ExpectationSuite(name="masked_export", expectations=expectations)


def _expectations(options: SuiteOptions) -> Iterator[Expectation]:
    columns = [*PUBLISHED_COLUMNS, *LINE_KEY, *_MEASURED]
    yield gxe.ExpectTableColumnsToMatchSet(
        column_set=columns,
        exact_match=True,
        notes="The columns are the allow-list, the day and the technical ones.",
        meta={"rule": "columns"},
    )
    for column in columns:
        if column not in _NULLABLE:
            yield gxe.ExpectColumnValuesToNotBeNull(
                column=column, notes=f"{column} is always there.", meta={"rule": "presence"}
            )
    yield from _leak_expectations(options)
    for column, pattern in (("CustomerType", "PRIME|NONPRIME"), ("DeliveryType", "HOME-DELIVERY|TAKEAWAY")):
        notes = f"{column} is one of {pattern}, in any case of letters."
        yield _match(column, f"(?i)^(?:{pattern})$", notes, "values")
    yield _between(_TOTAL_DIFFERENCE, None, options.total_tolerance, "TotalValue is ItemPrice x ItemQty.", "totals")
    yield _between(_COPIES, 1, 1, "Each line item of the topic is there once.", "uniqueness")


def _leak_expectations(options: SuiteOptions) -> Iterator[Expectation]:
    for column in _FREE_TEXTS:
        yield _no_match(column, TEN_DIGITS, "a card or phone number")
    for column in _CODES:
        yield _no_match(column, _long_number(options), "a card or phone number")
    for column in (*_FREE_TEXTS, *_CODES):
        yield _no_match(column, EMAIL, "an email address")
        yield _no_match(column, ADDRESS, "a postal address")
    yield _between(_DISGUISED, None, 0, "No text decodes to a card or phone number or an address.", "masking")
    for column, (least, most) in _BOUNDS.items():
        yield _between(column, least, most, f"{column} is from {least} to {most}.", "masking")


def _long_number(options: SuiteOptions) -> str:
    return f"{long_number(options.code_digits)}|{PRINTED_CARD}|{WRITTEN_NUMBER}"


def _no_match(column: str, regex: str, what: str) -> Expectation:
    notes = f"{column} doesn't hold {what}."
    return gxe.ExpectColumnValuesToNotMatchRegex(column=column, regex=regex, notes=notes, meta={"rule": "masking"})


def _match(column: str, regex: str, notes: str, rule: str) -> Expectation:
    return gxe.ExpectColumnValuesToMatchRegex(column=column, regex=regex, notes=notes, meta={"rule": rule})


def _between(column: str, least: float | None, most: float, notes: str, rule: str) -> Expectation:
    return gxe.ExpectColumnValuesToBeBetween(
        column=column, min_value=least, max_value=most, notes=notes, meta={"rule": rule}
    )
