"""How Spark reaches a store of durable files: by the variables that `deltalake` reads, too."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from storekeeper.errors import ConfigurationError, TablesUnreachableError
from storekeeper.locations import Location, unreachable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_S3 = ("s3", "s3a")
_BY_A_CLIENT = re.compile(r"org\.apache\.hadoop\.(fs\.s3a|hdfs|ipc)\.|software\.amazon\.awssdk\.services\.s3\.")
"""S3A reads a file's rows in threads of its own: their errors name Amazon's client alone."""
_NO_ANSWER = re.compile(
    r"(?:java\.net\.(?:Connect|NoRouteToHost|SocketTimeout|UnknownHost)Exception"
    r"|ConnectTimeoutException|NoHttpResponseException|SdkClientException|AWSClientIOException): ([^\n]+)"
)


def store_properties(place: Location, environment: Mapping[str, str]) -> dict[str, str]:
    """Spark's properties for a store. Credentials are not among them: Hadoop's client reads those by itself.

    Args:
        place: the folder of the files.
        environment: the variables that `deltalake` reads, such as `AWS_ENDPOINT_URL`.
    """
    if isinstance(place, Path) or place.uri.partition(":")[0] not in _S3:
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


def close_to_others(spark: SparkSession, durable: Location) -> None:
    """Takes from others their rights to a folder in a store, as Spark's umask does for new files. Makes it if needed.

    `deltalake` writes files that all users of HDFS may read. The folder above them keeps others away. S3 has no such
    rights: its policies decide.

    Raises:
        ConfigurationError: others may read the folder, and this user can't change that.
        TablesUnreachableError: the store does not answer.
    """
    if isinstance(durable, Path):
        return
    hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]  # noqa: SLF001 (no public way)
    configuration = spark.sparkContext._jsc.hadoopConfiguration()  # noqa: SLF001 (no public way)
    with reaching_by_spark(durable):
        folder = hadoop.Path(durable.uri)
        files = folder.getFileSystem(configuration)
        files.mkdirs(folder)
        found = files.getFileStatus(folder).getPermission()
        wanted = found.applyUMask(hadoop.permission.FsPermission.getUMask(configuration))
        if wanted.equals(found):
            return
        try:
            with reaching_by_spark(durable):
                files.setPermission(folder, wanted)
        except TablesUnreachableError:
            raise
        except Exception as error:  # what py4j makes of a Java exception
            msg = f"other users may read {durable}, and this one can't change that: let its owner close it (chmod 700)"
            raise ConfigurationError(msg) from error


@contextmanager
def reaching_by_spark(tables: Location) -> Iterator[None]:
    """Turns Spark's errors of a store that does not answer into one that says so, as `storekeeper.locations.reaching`
    does.

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
