"""A Delta table as a stream of Arrow, for any reader of these.

`deltalake` reads the table, so deletion vectors and column mapping are honoured, and DuckDB's own Delta extension, a
download, isn't needed.
"""

from __future__ import annotations

from deltalake import DeltaTable


class Scan:
    """One version of a Delta table, or those of its rows that a predicate names, as a stream.

    It opens any number of times.
    """

    def __init__(self, table: DeltaTable, predicate: str | None = None) -> None:
        self._table = table
        self._predicate = predicate

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self._table.scan(predicate=self._predicate).__arrow_c_stream__(requested_schema)
