"""How Spark reaches the store of the Delta tables: by the variables that `deltalake` reads, too."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from state.locations import Location

_S3 = ("s3", "s3a")


def store_properties(tables: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's properties for a store. Credentials are not among them: Hadoop's client reads those by itself.

    Args:
        tables: the folder of the tables.
        environment: the variables that `deltalake` reads, such as `AWS_ENDPOINT_URL`.
    """
    if isinstance(tables, Path) or tables.uri.partition(":")[0] not in _S3:
        return {}
    found = {"spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem"}
    endpoint = environment.get("AWS_ENDPOINT_URL_S3") or environment.get("AWS_ENDPOINT_URL")
    if endpoint:
        # An endpoint of one's own seldom has a name for each bucket.
        found |= {"spark.hadoop.fs.s3a.endpoint": endpoint, "spark.hadoop.fs.s3a.path.style.access": "true"}
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    if region:
        found["spark.hadoop.fs.s3a.endpoint.region"] = region
    return found
