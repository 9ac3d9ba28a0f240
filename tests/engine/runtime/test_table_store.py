from __future__ import annotations

import stat
from pathlib import Path
from unittest.mock import Mock

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from harness.ports import free_ports
from storekeeper.engine.runtime.session import close_to_others, reaching_by_spark, store_properties
from storekeeper.errors import ConfigurationError, TablesUnreachableError
from storekeeper.locations import RemoteFolder

_SET = {
    "AWS_ENDPOINT_URL": "http://127.0.0.1:5000",
    "AWS_REGION": "eu-west-1",
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
}


def test_spark_asks_the_same_endpoint_as_deltalake_and_gets_no_secret() -> None:
    assert store_properties(RemoteFolder("s3://lake/tables"), _SET) == {
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        "spark.hadoop.fs.s3a.endpoint": "http://127.0.0.1:5000",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.endpoint.region": "eu-west-1",
    }


def test_other_places_need_nothing(tmp_path: Path) -> None:
    for place in (tmp_path, RemoteFolder("hdfs://namenode:8020/tables")):
        assert store_properties(place, _SET) == {}


@pytest.mark.spark
def test_the_folder_of_durable_files_is_closed_to_others(spark_session: SparkSession, tmp_path: Path) -> None:
    """Hadoop's client of local files stands in for that of HDFS."""
    made, open_one = tmp_path / "a" / "made", tmp_path / "open"
    open_one.mkdir()
    open_one.chmod(0o755)
    for folder in (made, open_one):
        close_to_others(spark_session.sparkContext, RemoteFolder(f"file:{folder}"))
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_an_open_folder_of_another_user_is_refused() -> None:
    context = Mock()
    files = context._jvm.org.apache.hadoop.fs.Path.return_value.getFileSystem.return_value
    found = files.getFileStatus.return_value.getPermission.return_value
    found.applyUMask.return_value.equals.return_value = False
    files.setPermission.side_effect = ValueError("org.apache.hadoop.security.AccessControlException: not the owner")
    with pytest.raises(ConfigurationError, match=r"other users may read hdfs://namenode:8020/shop.*chmod 700"):
        close_to_others(context, RemoteFolder("hdfs://namenode:8020/shop"))


@pytest.mark.spark
def test_a_store_that_does_not_answer_spark_is_named_and_other_errors_stay(
    spark_session: SparkSession, tmp_path: Path
) -> None:
    tables = RemoteFolder(f"hdfs://127.0.0.1:{free_ports(1)[0]}/tables")
    impatient = spark_session.read.option("ipc.client.connect.max.retries", "0")
    with (
        pytest.raises(TablesUnreachableError, match=f"the store of {tables} can't be .*Connection refused.*repeat"),
        reaching_by_spark(tables),
    ):
        impatient.parquet(f"{tables}/rewards")
    with pytest.raises(AnalysisException), reaching_by_spark(tables):
        spark_session.read.parquet(str(tmp_path / "none"))


_FROM_A_THREAD_OF_S3A = """An error occurred while calling o93.persist.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3://lake/tables/t.
Caused by: java.io.IOException: Client error accessing s3://lake/tables/t, failed with: Unable to execute HTTP request
\tat software.amazon.s3.analyticsaccelerator.exceptions.ExceptionHandler.toIOException(ExceptionHandler.java:77)
Caused by: software.amazon.awssdk.core.exception.SdkClientException: Unable to execute HTTP request: Connection refused
\tat software.amazon.awssdk.services.s3.DefaultS3Client.getObject(DefaultS3Client.java:6416)
"""


def test_a_store_that_goes_away_while_a_file_is_read_is_named() -> None:
    with (
        pytest.raises(TablesUnreachableError, match=r"the store of s3://lake/tables .*Connection refused"),
        reaching_by_spark(RemoteFolder("s3://lake/tables")),
    ):
        raise RuntimeError(_FROM_A_THREAD_OF_S3A)
