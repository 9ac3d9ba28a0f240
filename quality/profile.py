"""What a batch looks like as a whole, in shares, and how far that is from the batches before it.

A profile counts the rows of a batch by customer type, delivery type, order of magnitude of the total, and quantity: all
of them buckets that this module defines, so that a profile holds no value of the data. Two profiles are compared by
the population stability index, the sum over buckets of (p - q) ln(p / q); by convention, above 0.25 they differ.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from quality.verdict import Outcome, Profile

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MIN_ROWS = 500
"""Fewer rows say nothing about shares."""

_LEAST_SHARE = 0.0005  # of a bucket that one side lacks
_DIMENSIONS = ("CustomerType", "DeliveryType", "TotalValue", "ItemQty")
_MOST_QUANTITY = 10


def profile_of(batch: DataFrame) -> Profile:
    """The batch's profile; an empty one if it lacks a column. Reads it once."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 (Spark's own custom; only a batch is worth the import)

    if not set(_DIMENSIONS) <= set(batch.columns):
        return {}
    known = {
        name: F.when(F.lower(name).isin(*values), F.lower(name)).otherwise("other")
        for name, values in (("CustomerType", ("prime", "nonprime")), ("DeliveryType", ("home-delivery", "takeaway")))
    }
    total, quantity = F.col("TotalValue").cast("double"), F.col("ItemQty")
    magnitude = F.floor(F.log2(F.greatest(F.abs(total), F.lit(0.01)))).cast("string")
    known["TotalValue"] = F.when(total < 0, "negative").otherwise(magnitude)
    known["ItemQty"] = F.greatest(F.lit(-1), F.least(F.lit(_MOST_QUANTITY), quantity)).cast("string")
    buckets = F.array(*(F.struct(F.lit(name).alias("name"), known[name].alias("bucket")) for name in _DIMENSIONS))
    rows = batch.select(F.explode(buckets).alias("in")).groupBy("in.name", "in.bucket").count().collect()
    profile: dict[str, dict[str, int]] = {name: {} for name in _DIMENSIONS}
    for name, bucket, count in rows:
        profile[name][str(bucket)] = count
    return profile


def merged(profiles: Iterable[Profile]) -> Profile:
    """The sum of the profiles."""
    sums: dict[str, Counter[str]] = {}
    for profile in profiles:
        for name, buckets in profile.items():
            sums.setdefault(name, Counter()).update(buckets)
    return {name: dict(buckets) for name, buckets in sums.items()}


def stability_index(reference: Mapping[str, int], found: Mapping[str, int]) -> float:
    """The population stability index of two counts by bucket; 0 if one of them is empty."""
    of_reference, of_found = sum(reference.values()), sum(found.values())
    if not of_reference or not of_found:
        return 0.0
    index = 0.0
    for bucket in reference.keys() | found.keys():
        p = max(found.get(bucket, 0) / of_found, _LEAST_SHARE)
        q = max(reference.get(bucket, 0) / of_reference, _LEAST_SHARE)
        index += (p - q) * math.log(p / q)
    return index


def drift(reference: Profile, found: Profile, limit: float) -> list[Outcome]:
    """One outcome for each dimension that both profiles have enough rows of."""
    outcomes = []
    for name, buckets in found.items():
        earlier = reference.get(name, {})
        if min(sum(buckets.values()), sum(earlier.values())) < MIN_ROWS:
            continue
        index = stability_index(earlier, buckets)
        meaning = f"{name} is distributed as in the batches before (stability index at most {limit:g})."
        if index > limit:
            meaning += f" It is {index:.2f}."
        outcomes.append(Outcome("stability_index", name, meaning, index <= limit, rule="drift"))
    return outcomes
