"""What a batch looks like as a whole, in shares, and how far that is from the good batches before it.

A profile counts the rows of a batch by bucket for each column that is declared with `drift`: buckets of
`storekeeper.quality.measures.bucket_sql`, so that a profile holds no value of the data. Two profiles are compared by
the population stability index, the sum over buckets of (p - q) ln(p / q); by convention, above 0.25 they differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from storekeeper.quality.measures import SPARK_QUOTE, bucket_sql
from storekeeper.quality.verdict import Outcome, Profile, VerdictArchive

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from storekeeper.apps.checked_table import CheckedTable

MIN_ROWS = 500
"""Fewer rows say nothing about shares."""

_COMPARED = 24
"""How many of the good batches before are looked at for drift."""
_MOST_DRIFT = 0.25
_LEAST_SHARE = 0.0005  # of a bucket that one side lacks


def buckets_of(table: CheckedTable, usable: frozenset[str]) -> dict[str, str]:
    """The dimensions of the table's profile that are `usable`, each with the SQL of a row's bucket."""
    drifting = (column for column in table.columns if column.drift and column.name in usable)
    return {column.name: bucket_sql(column, SPARK_QUOTE) for column in drifting}


def counted(batch: DataFrame, buckets: Mapping[str, str]) -> dict[str, dict[str, int]]:
    """The batch's rows by dimension and bucket. Reads it once. There is at least one dimension; `buckets` has the SQL
    of a row's bucket.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark's own custom; only a batch is worth the import)

    each = ", ".join(f"struct('{name}' AS name, {sql} AS bucket)" for name, sql in buckets.items())
    rows = batch.select(F.expr(f"explode(array({each}))").alias("in")).groupBy("in.name", "in.bucket").count()
    counts: dict[str, dict[str, int]] = {name: {} for name in buckets}
    for name, bucket, count in rows.collect():
        counts[name][bucket] = count
    return counts


def merged(profiles: Iterable[Profile]) -> Profile:
    """The sum of the profiles."""
    sums: dict[str, Counter[str]] = {}
    for profile in profiles:
        for name, buckets in profile.items():
            sums.setdefault(name, Counter()).update(buckets)
    return {name: dict(buckets) for name, buckets in sums.items()}


def stability_index(reference: Mapping[str, int], counts: Mapping[str, int]) -> float:
    """The population stability index of two counts by bucket; 0 if one of them is empty."""
    of_reference, of_found = sum(reference.values()), sum(counts.values())
    if not of_reference or not of_found:
        return 0.0
    index = 0.0
    for bucket in reference.keys() | counts.keys():
        p = max(counts.get(bucket, 0) / of_found, _LEAST_SHARE)
        q = max(reference.get(bucket, 0) / of_reference, _LEAST_SHARE)
        index += (p - q) * math.log(p / q)
    return index


def drifted(archive: VerdictArchive, version: int, profile: Profile) -> list[Outcome]:
    """How far a batch's profile is from that of the good batches before its first version."""
    return drift(merged(verdict.profile for verdict in archive.published_before(version, _COMPARED)), profile)


def drift(reference: Profile, profile: Profile) -> list[Outcome]:
    """One outcome for each dimension that both profiles have enough rows of."""
    outcomes = []
    for name, buckets in profile.items():
        earlier = reference.get(name, {})
        if min(sum(buckets.values()), sum(earlier.values())) < MIN_ROWS:
            continue
        index = stability_index(earlier, buckets)
        meaning = f"{name} is distributed as in the batches before (stability index at most {_MOST_DRIFT:g})."
        if index > _MOST_DRIFT:
            meaning += f" It is {index:.2f}."
        outcomes.append(Outcome("stability_index", name, meaning, index <= _MOST_DRIFT, rule="drift"))
    return outcomes
