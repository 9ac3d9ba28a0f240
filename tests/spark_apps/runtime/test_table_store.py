from __future__ import annotations

from pathlib import Path

from spark_apps.runtime.table_store import store_properties
from state.locations import RemoteFolder

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
