"""What Spark's workers make of a store's changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from storekeeper.engine.errors import errors_of_tasks
from storekeeper.schemas.errors import SchemaRegistryUnavailableError
from storekeeper.snapshots.changes import with_columns
from storekeeper.snapshots.columns import PLACE_COLUMNS, StoreValues

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


class AwayValues(StoreValues):
    """Values whose registry has stopped answering."""

    def reader(self) -> object:  # type: ignore[override]
        def read(_: bytes) -> object:
            raise SchemaRegistryUnavailableError("the schema registry does not answer")

        return read


def test_a_registry_that_stops_answering_the_workers_is_tried_again(spark_session: SparkSession) -> None:
    ddl = ", ".join(f"`{name}` {kind}" for name, kind in PLACE_COLUMNS.items())
    row = dict.fromkeys(PLACE_COLUMNS) | {"_key": b"k", "_value": b"v"}
    changes = spark_session.createDataFrame([tuple(row.values())], ddl)
    with pytest.raises(SchemaRegistryUnavailableError, match="does not answer"), errors_of_tasks():
        with_columns(changes, {"card": "string"}, AwayValues(())).collect()
