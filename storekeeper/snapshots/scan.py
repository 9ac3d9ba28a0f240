"""A Delta table as a stream of Arrow, for any reader of these.

`deltalake` reads the table, so deletion vectors and column mapping are honoured, and DuckDB's own Delta extension, a
download, isn't needed.
"""

from __future__ import annotations

from collections.abc import Sequence

from deltalake import DeltaTable


class Scan:
    """One version of a Delta table, or those of its rows that a predicate names, as a stream.

    It opens any number of times. Its columns are all, or those that are named.
    """

    def __init__(self, table: DeltaTable, predicate: str | None = None, columns: Sequence[str] | None = None) -> None:
        self._table = table
        self._predicate = predicate
        self._columns = None if columns is None else list(columns)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.scan(columns=self._columns, predicate=self._predicate).__arrow_c_stream__(requested_schema)
