"""What an app writes that takes a topic into a Delta table: the description, free of Spark."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError

PLACE = {"_partition": "int", "_offset": "bigint"}
"""The last columns of such a table, and their types: the place of the row's record in its topic."""

TableRow = Callable[[bytes | None, bytes | None, AppSettings], Sequence[object]]
"""The row of a record with this key and value: the values of the table's columns but `PLACE`, in their order.

It raises a `SerializationError`, such as `PoisonRecordError`, for a record that becomes a dead letter. A function of a
module, so that workers find it by its name.
"""


@dataclass(frozen=True, slots=True)
class TableSink:
    """A topic whose records become the rows of a table, each exactly once.

    Attributes:
        topic: the topic.
        table: the table, which the quality gate publishes. Its last columns are `_partition int` and `_offset bigint`.
        row: makes the row of a record.

    Raises:
        ConfigurationError: the table's last columns are others.
    """

    topic: str
    table: CheckedTable
    row: TableRow

    def __post_init__(self) -> None:
        last = {column.name: column.sql_type for column in self.table.columns[-len(PLACE) :]}
        if last != PLACE:
            wanted = ", ".join(f"{name} {kind}" for name, kind in PLACE.items())
            msg = f"the last columns of table {self.table.name} are not {wanted}: they hold the place in {self.topic}"
            raise ConfigurationError(msg)
