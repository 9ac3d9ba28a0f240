"""How a streamed scan is written: NDJSON, or Arrow's IPC stream. Without its end mark a stream is incomplete.

- NDJSON (`application/x-ndjson`): a row a line, and last `{"complete":true,"rows":n}`. A stream without that line was
  cut off. With `"complete":false` the line names the missing partitions, or the error that ended the stream.
- Arrow (`application/vnd.apache.arrow.stream`): batches with the columns `key` (binary), `value` (JSON text) and
  `partition`, for windows and sessions also `start_ms` and `end_ms`; the last batch has no rows, and custom metadata
  with the same fields as NDJSON's last line.
"""

from __future__ import annotations

import base64
import gc
import importlib
import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import orjson

from storekeeper.node.query.answers.answer import NotAcceptableError, Problem
from storekeeper.node.query.answers.json_rows import RowLayout, TimedKey, row_json, timed_key, timed_row_json
from storekeeper.node.query.reads.pages import Row

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """How a stream ended. It is complete if nothing is missing and no error ended it."""

    rows: int
    missing: Sequence[int] = ()
    problem: Problem | None = None

    def as_dict(self) -> dict[str, object]:
        """The fields of the mark."""
        fields: dict[str, object] = {"complete": not self.missing and self.problem is None, "rows": self.rows}
        if self.missing:
            fields["missing"] = sorted(self.missing)
        if self.problem is not None:
            fields["error"] = orjson.loads(self.problem.body())
        return fields


class NdjsonFormat:
    """Writes a scan as NDJSON: a line for each row, and one for the end."""

    media_type = NDJSON

    def __init__(self, layout: RowLayout | None) -> None:
        self._layout = layout

    def rows(self, rows: Sequence[Row]) -> bytes:
        """A line for each."""
        return b"".join(b"%b\n" % _one_line(json_of(self._layout, *row)) for row in rows)

    def end(self, end: StreamEnd) -> bytes:
        """The last line."""
        return orjson.dumps(end.as_dict()) + b"\n"


class ArrowFormat:
    """Writes a scan as Arrow's IPC stream. `partition_of` gives the partition of a key."""

    media_type = ARROW

    def __init__(self, layout: RowLayout | None, partition_of: Callable[[bytes], int]) -> None:
        self._arrow = load_arrow()
        self._layout = layout
        self._partition_of = partition_of
        arrow = self._arrow
        columns = [("key", arrow.binary()), ("value", arrow.string()), ("partition", arrow.int32())]
        if layout is not None:
            columns.append(("start_ms", arrow.int64()))
        if layout is RowLayout.SESSION:
            columns.append(("end_ms", arrow.int64()))
        self._schema = arrow.schema(columns)
        self._sink = _Sink()
        self._writer: Any = None

    def rows(self, rows: Sequence[Row]) -> bytes:
        """One batch."""
        timed = [_split(self._layout, key) for key, _ in rows]
        columns: list[list[Any]] = [
            [row.key for row in timed],
            [_json_text(value) for _, value in rows],
            [self._partition_of(row.key) for row in timed],
        ]
        if self._layout is not None:
            columns.append([row.start_ms for row in timed])
        if self._layout is RowLayout.SESSION:
            columns.append([row.end_ms for row in timed])
        return self._written(columns, None)

    def end(self, end: StreamEnd) -> bytes:
        """The empty batch with the mark, and the stream's own end."""
        metadata = {name: orjson.dumps(value).decode() for name, value in end.as_dict().items()}
        written = self._written([[] for _ in self._schema], metadata)
        self._writer.close()
        return written + self._sink.taken()

    def _written(self, columns: list[list[Any]], metadata: dict[str, str] | None) -> bytes:
        if self._writer is None:
            self._writer = self._arrow.ipc.new_stream(self._sink, self._schema)
        arrays = [self._arrow.array(column, field.type) for column, field in zip(columns, self._schema, strict=True)]
        self._writer.write_batch(self._arrow.record_batch(arrays, schema=self._schema), custom_metadata=metadata)
        return self._sink.taken()


StreamFormat = NdjsonFormat | ArrowFormat
"""Writes one stream: some rows, and its end."""


@cache
def load_arrow() -> Any:
    """The module `pyarrow`. The first call takes a quarter of a second: make it in a thread.

    Raises:
        NotAcceptableError: if it isn't installed.
    """
    try:
        arrow = importlib.import_module("pyarrow")
    except ImportError as error:
        msg = f"this node has no pyarrow, so it can't write {ARROW}: ask for {NDJSON}, or install storekeeper[sql]"
        raise NotAcceptableError(msg) from error
    arrow.array([])  # loads pandas, if it is installed
    # These modules stay. Garbage collection over them would hold up requests for 30 ms, twice a second.
    gc.freeze()
    return arrow


class _Sink(io.RawIOBase):
    """Keeps what is written until it is taken."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def taken(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def json_of(layout: RowLayout | None, row_key: bytes, value: bytes) -> bytes:
    """One row as JSON, in the form of its kind of store."""
    if layout is None:
        return row_json(row_key, value)
    return timed_row_json(_split(layout, row_key), value)


def _split(layout: RowLayout | None, row_key: bytes) -> TimedKey:
    timed = None if layout is None else timed_key(layout, row_key)
    return TimedKey(row_key, 0, None) if timed is None else timed


def _one_line(row: bytes) -> bytes:
    """JSON without line breaks: they occur only between tokens, so a space can replace them."""
    return row.replace(b"\n", b" ").replace(b"\r", b" ") if b"\n" in row or b"\r" in row else row


def _json_text(value: bytes) -> str:
    try:
        orjson.loads(value)
    except orjson.JSONDecodeError:
        return f'"{base64.urlsafe_b64encode(value).decode()}"'
    return value.decode()
