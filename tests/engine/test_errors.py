"""Errors of tasks reach the driver as what they are."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.errors import PySparkException

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


def test_other_errors_of_spark_stay() -> None:
    with pytest.raises(PySparkException, match=r"^of another kind$"), errors_of_tasks():
        raise PySparkException("of another kind")
