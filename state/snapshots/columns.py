"""The columns of a snapshot: those derived from a row's JSON value, and those that identify its changelog record.

The snapshot job derives them when it writes, and verification derives them again and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Protocol

import msgspec
import orjson
import pyarrow as pa
from deltalake import DeltaTable

from state.snapshots.sql_types import decimal_size

PLACE_COLUMNS = {
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp_ms": "bigint",
    "_key": "binary",
    "_value": "binary",
}
"""SQL type by name of the columns that identify a row's changelog record."""
PLACE_MEANINGS = {
    "_partition": "The partition of the row's changelog record.",
    "_offset": "The offset of the row's changelog record.",
    "_timestamp_ms": "The timestamp of the row's changelog record, in epoch milliseconds.",
    "_key": "The row's key as bytes, as the changelog has it.",
    "_value": "The row's value as bytes, as the changelog has it.",
}
"""What these columns hold, for the catalogue."""

_TYPES = {
    "string": pa.string(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "timestamp": pa.timestamp("us", "UTC"),
}
_OF_DELTA = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_NOT_A_NUMBER = Decimal("NaN")
_EXACT = Context(prec=76, rounding=ROUND_HALF_UP)
_US_PER_MS = 1000
_MAX_MS = (1 << 63) // _US_PER_MS


class Field(Protocol):
    """A field of a store's JSON value: see `spark_apps.spec.ValueField`."""

    @property
    def name(self) -> str: ...  # noqa: D102 (see there)
    @property
    def sql_type(self) -> str: ...  # noqa: D102


def snapshot_schema(fields: Sequence[Field]) -> pa.Schema:
    """The columns of a store's snapshots, in their order.

    Raises:
        ConfigurationError: a field has a type that no column can have.
    """
    typed = [(field.name, arrow_type(field.sql_type)) for field in fields]
    return pa.schema([*typed, *((name, arrow_type(kind)) for name, kind in PLACE_COLUMNS.items())])


def arrow_type(sql_type: str) -> pa.DataType:
    """The Arrow type of a column of a Spark SQL type.

    Raises:
        ConfigurationError: no column of a snapshot can have it.
    """
    size = decimal_size(sql_type)
    return _TYPES[sql_type] if size is None else pa.decimal128(*size)


def sql_types(table: DeltaTable) -> dict[str, str]:
    """The SQL type by name of a Delta table's columns, in their order."""
    columns = orjson.loads(table.schema().to_json())["fields"]
    return {column["name"]: _OF_DELTA.get(str(column["type"]), str(column["type"])) for column in columns}


def derived_columns(values: Iterable[bytes | None], fields: Sequence[Field]) -> list[pa.Array]:
    """The columns of `fields`, from JSON values.

    A field is null where the value is None or no JSON object, and where the field is missing or isn't of its type.
    Decimals are exact, and rounded half up to the column's scale.

    Raises:
        ConfigurationError: a field has a type that no column can have.
    """
    types = [arrow_type(field.sql_type) for field in fields]
    converters = [_converter(kind) for kind in types]
    decode = msgspec.json.Decoder(float_hook=_exact_number).decode
    columns: list[list[Any]] = [[] for _ in fields]
    names = [field.name for field in fields]
    for value in values:
        content = _object(decode, value)
        for name, column, convert in zip(names, columns, converters, strict=True):
            found = content.get(name)
            column.append(None if found is None else convert(found))
    return [_array(column, kind) for column, kind in zip(columns, types, strict=True)]


def _object(decode: Callable[[bytes], Any], value: bytes | None) -> dict[str, Any]:
    if value is None:
        return {}
    try:
        content = decode(value)
    except (ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _exact_number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except ArithmeticError:  # an exponent of more digits than there are atoms
        return _NOT_A_NUMBER


def _array(values: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_decimal(kind):
        return _to_decimal(kind.precision, kind.scale)
    if pa.types.is_integer(kind):
        bound = 1 << (kind.bit_width - 1)
        return lambda found: found if type(found) is int and -bound <= found < bound else None
    if pa.types.is_timestamp(kind):
        return lambda found: found * _US_PER_MS if type(found) is int and abs(found) < _MAX_MS else None
    if pa.types.is_boolean(kind):
        return lambda found: found if isinstance(found, bool) else None
    if pa.types.is_floating(kind):
        return _to_float
    return _to_text


def _to_decimal(precision: int, scale: int) -> Callable[[Any], Decimal | None]:
    unit, digits = Decimal(1).scaleb(-scale), precision - scale

    def convert(found: Any) -> Decimal | None:
        if isinstance(found, bool) or not isinstance(found, int | Decimal):
            return None
        try:
            number = Decimal(found).quantize(unit, context=_EXACT)
        except ArithmeticError:
            return None
        return number if number.is_finite() and number.adjusted() < digits else None

    return convert


def _to_float(found: Any) -> float | None:
    if isinstance(found, bool) or not isinstance(found, int | Decimal):
        return None
    try:
        number = float(found)
    except (ArithmeticError, ValueError):
        return None
    return None if number != number else number  # noqa: PLR0124 (it isn't a number)


def _to_text(found: Any) -> str:
    return found if isinstance(found, str) else orjson.dumps(found, default=float).decode()
