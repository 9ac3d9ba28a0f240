"""What Spark's workers make of a store's changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storekeeper.engine.errors import errors_of_tasks
from storekeeper.schemas.errors import SchemaRegistryUnavailableError
from storekeeper.snapshots.changes import _changes, with_columns
from storekeeper.snapshots.columns import PLACE_COLUMNS, StoreValues
from storekeeper.topology.records import RecordFields

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class AwayValues(StoreValues):
    """Values whose registry has stopped answering."""

    def reader(self) -> object:  # type: ignore[override]
        def read(_: bytes) -> object:
            raise SchemaRegistryUnavailableError("the schema registry does not answer")

        return read


@pytest.mark.spark
def test_a_registry_that_stops_answering_the_workers_is_tried_again(spark_session: SparkSession) -> None:
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in PLACE_COLUMNS.items())
    row = dict.fromkeys(PLACE_COLUMNS) | {"_key": b"k", "_value": b"v"}
    changes = spark_session.createDataFrame([tuple(row.values())], ddl)
    with pytest.raises(SchemaRegistryUnavailableError, match="does not answer"), errors_of_tasks():
        with_columns(changes, {"card": "string"}, AwayValues(())).collect()


def test_changes_have_the_batch_of_their_record_and_what_is_no_row_has_a_reason() -> None:
    good = [("schema-version", b"1"), ("generation", b"2"), ("batch-id", b"17")]
    records: list[RecordFields] = [
        ("t", 3, 5, 1000, b"k", b"v", good),
        ("t", 3, 6, 1001, b"k", None, [("generation", b"x"), ("batch-id", b"9" * 30)]),
        ("t", 3, 7, 2**62, b"k", b"v", good),
        ("t", 3, 8, 1002, None, b"v", good),
        ("t", 3, 9, 1003, b"k", b"v", ()),
    ]
    [batch] = _changes(records)
    assert [tuple(row.values()) for row in batch.to_pylist()] == [
        (3, 5, 1000, b"k", b"v", 2, 17, None),
        (3, 6, 1001, b"k", None, None, None, None),
        (3, 7, 2**62, b"k", None, None, None, "bad-timestamp"),
        (3, 8, 1002, None, None, None, None, "null-key"),
        (3, 9, 1003, b"k", None, None, None, "no-schema-version"),
    ]
