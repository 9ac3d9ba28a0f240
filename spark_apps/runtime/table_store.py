"""How Spark reaches the store of the Delta tables: by the variables that `deltalake` reads, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from state.locations import Location, unreachable

_S3 = ("s3", "s3a")
_BY_A_CLIENT = re.compile(r"org\.apache\.hadoop\.(fs\.s3a|hdfs|ipc)\.")
_NO_ANSWER = re.compile(
    r"(?:java\.net\.(?:Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception"
    r"|ConnectTimeoutException|NoHttpResponseException|SdkClientException|AWSClientIOException): ([^\n]+)"
)


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


@contextmanager
def reaching_by_spark(tables: Location) -> Iterator[None]:
    """Turns Spark's errors of a store that does not answer into one that says so, as `state.locations.reaching` does.

    Raises:
        TablesUnreachableError: Spark could not reach the store of `tables`.
    """
    try:
        yield
    except Exception as error:  # Spark's own classes, or what py4j makes of a Java exception
        text = str(error)
        found = _NO_ANSWER.search(text)
        if isinstance(tables, Path) or found is None or not _BY_A_CLIENT.search(text):
            raise
        raise unreachable(tables, found[1]) from error
