"""Answers to queries: values and their origin, and rows as a list or as a table of Arrow or pandas."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from storekeeper.errors import ConfigurationError, SerializationError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa


T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """One answer and where it comes from.

    Attributes:
        value: what was asked for. JSON numbers with a fraction are `Decimal`; None where there is no such key, or
            where its value is null: `found` tells which.
        served_by: the node that answered.
        role: of the replica that answered: `active`, `standby` or `history`; empty if several took part.
        partition: the store partition that the answer is from; None if several took part.
        offset: the replica's next changelog offset: all records before it are in the answer. None if unknown.
        offset_lag: how many changelog records were missing from it at most.
        staleness_ms: the age of the answer at most, in milliseconds. None if the node doesn't know.
        position: the token of the positions that the answer includes, for a later requirement. Empty if unknown.
        complete: whether every partition took part.
        found: False if there is no such key.
    """

    value: T
    served_by: str = ""
    role: str = ""
    partition: int | None = None
    offset: int | None = None
    offset_lag: int = 0
    staleness_ms: int | None = None
    position: str = ""
    complete: bool = True
    found: bool = True

    def of(self, value: U) -> Reading[U]:
        """Another value of the same origin."""
        return replace(self, value=value)  # type: ignore[return-value, arg-type]


class Row(NamedTuple):
    """A row, `for key, value in …`. `key` is bytes where it isn't text."""

    key: str | bytes
    value: Any


@dataclass(frozen=True, slots=True)
class WindowedRow:
    """The value of a key in the window that begins at `start_ms`, epoch milliseconds, included."""

    key: str | bytes
    start_ms: int
    value: Any


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session of a key: from its first record to its last, both included, epoch milliseconds."""

    key: str | bytes
    start_ms: int
    end_ms: int
    value: Any


@dataclass(frozen=True, slots=True)
class VersionRow:
    """The value of a key from `timestamp_ms` until before `valid_to_ms`, epoch milliseconds; None: it is valid."""

    key: str | bytes
    value: Any
    timestamp_ms: int
    valid_to_ms: int | None


@dataclass(frozen=True, slots=True)
class RankedRow:
    """A row and its place: 1 is the highest score, equal scores share a rank and the next ranks are skipped."""

    rank: int
    key: str | bytes
    score: Any
    value: Any


@dataclass(frozen=True, slots=True)
class Rank:
    """The place of one key among `of` keys."""

    rank: int
    key: str | bytes
    score: Any
    of: int


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Some rows, and the cursor of the next page; None on the last page."""

    rows: Listing[T]
    cursor: str | None


@dataclass(frozen=True, slots=True)
class NodeLag:
    """The lag of a node's replicas.

    Attributes:
        address: of the node.
        node: its name; empty if it does not answer.
        replicas: as `/state/lag` lists them.
        error: why it does not answer; None if it does.
    """

    address: str
    node: str
    replicas: Sequence[dict[str, Any]]
    error: str | None


class Listing(list[T], Generic[T]):
    """Rows of one kind, which has the names of the columns."""

    def __init__(self, kind: type[T], rows: Iterable[T] = ()) -> None:
        super().__init__(rows)
        self.kind = kind

    def to_arrow(self) -> pa.Table:
        """A table with a column for each field of a row.

        Types follow from the rows: JSON objects become structs, numbers with a fraction become decimals. Keys are
        text, or binary if one of them isn't text.

        Raises:
            ConfigurationError: if pyarrow is not installed.
            SerializationError: if the values of a column have no type in common.
        """
        with _installed():
            import pyarrow as pa  # noqa: PLC0415 - optional
        columns = {name: [getattr(row, name) for row in self] for name in self.kind.__match_args__}  # type: ignore[attr-defined]
        if "key" in columns:
            columns["key"] = _alike(columns["key"])
        return pa.table({name: _array(pa, name, values) for name, values in columns.items()})

    def to_pandas(self) -> pd.DataFrame:
        """The same as a data frame. Members of an object become columns such as `value.total`.

        Raises:
            ConfigurationError: if pyarrow or pandas is not installed.
            SerializationError: if the values of a column have no type in common.
        """
        table = self.to_arrow().flatten()
        with _installed():
            return table.to_pandas()


def _alike(keys: list[Any]) -> list[Any]:
    if all(isinstance(key, str) for key in keys):
        return keys
    return [key.encode() if isinstance(key, str) else key for key in keys]


def _array(pa: Any, name: str, values: list[Any]) -> Any:
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, ValueError, TypeError) as error:
        msg = f"the column {name} has no one type ({error}): read the rows one by one, and choose the type yourself"
        raise SerializationError(msg) from error


@contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigurationError(f"a table needs {error.name}: pip install {error.name}") from error
