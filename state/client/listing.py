"""Rows as a list, and as a table of Arrow or pandas. Their packages are loaded when a table is made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from state.errors import ConfigurationError, SerializationError

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

T = TypeVar("T")


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
        msg = f"a table needs {error.name}: pip install {error.name}"
        raise ConfigurationError(msg) from error
