"""Errors of tasks reach the driver as what they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException

from storekeeper.apps.errors import UnreadableTimeError
from storekeeper.changelog.errors import ChangelogMovedError
from storekeeper.engine.errors import TaskError, errors_of_tasks, task_errors
from storekeeper.errors import StateError, StorageError


@pytest.mark.parametrize(
    "error", [StorageError('the disk is "full"\nby {now}'), ChangelogMovedError("t", 3, "was deleted")], ids=repr
)
def test_an_error_of_a_task_is_the_same_in_the_driver(error: StateError) -> None:
    @task_errors
    def stage() -> Iterator[None]:
        yield None
        raise error

    with pytest.raises(TaskError) as told:
        list(stage())
    with pytest.raises(type(error)) as found, errors_of_tasks():
        raise PySparkException(f"Traceback ...\n{told.value}\n... at org.apache.spark")
    assert str(found.value) == str(error)


UNREADABLE = (
    "Job aborted due to stage failure: Lost task 0.0: org.apache.spark.sql.kafka010.KafkaIllegalStateException: Record "
    "at topic orders partition 0 offset 97 has timestamp value 9223372036854775807 that overflows when converting to "
    "Spark's microsecond-precision TimestampType."
)


def test_a_record_that_spark_can_not_read_is_named() -> None:
    with (
        pytest.raises(UnreadableTimeError, match=r"^orders\[0\]@97 has the time 92233.*: copy the topic"),
        errors_of_tasks(),
    ):
        raise PySparkException(UNREADABLE)


def test_other_errors_of_spark_stay() -> None:
    with pytest.raises(PySparkException, match=r"^of another kind$"), errors_of_tasks():
        raise PySparkException("of another kind")
