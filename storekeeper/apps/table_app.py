"""An app that writes the records of a topic to a Delta table, each exactly once. Free of Spark."""

from __future__ import annotations

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.spec import AppSpec, TableRow, TableSink


def table_app(name: str, topic: str, table: CheckedTable, row: TableRow, *, title: str) -> AppSpec:
    """The spec of an app that writes the records of a topic to a Delta table.

    It appends to `<table>_staged`, and the quality gate publishes what passes its checks to `<table>`. A record that
    `row` refuses becomes a dead letter in `<name>-dlq`. Each record is written exactly once, also after a crash.

    Args:
        name: the app's name.
        topic: the topic.
        table: the columns of the table, and what their values must be. The last two are `_partition int` and
            `_offset bigint`, the place of the row's record in the topic.
        row: makes the row of a record from key, value and settings: the values of the columns before those two, in
            their order. Values have the types that Arrow converts to the columns' types, such as `Decimal` and `date`.
            A time without a zone is one in UTC. It raises a `PoisonRecordError` for a record that can't be a row. A
            record that it fails on otherwise becomes a dead letter too. So does one with a value that its column's
            type doesn't take, or would cut: 1.5 in a column of whole numbers, a time of day in one of dates.
        title: what the app does, in a few words.

    Raises:
        ConfigurationError: the table's last columns are others.
    """
    return AppSpec(
        name=name,
        title=title,
        sources=lambda _: (topic,),
        sinks=lambda _: (),
        dead_letters=True,
        tables=(table,),
        table_sink=TableSink(topic, table, row),
    )
