"""A store's values as its tables have them: their fields, how they are read, and the columns derived from them.

The columns of a snapshot: those derived from a row's value, and those that identify its changelog record.

The snapshot job derives them when it writes, and verification derives them again and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any

import msgspec
import orjson
import pyarrow as pa
from deltalake import DeltaTable

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.errors import SerializationError
from storekeeper.schemas.arrow_types import arrow_type
from storekeeper.schemas.column_fields import common_type
from storekeeper.schemas.registry import SchemaRegistry, registry_of
from storekeeper.serdes.json import json_fields
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.as_of import LAST_MS, TECHNICAL
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.stores.versioned import value_of_version

PLACE_COLUMNS = {
    "_partition": "int",
    "_offset": "bigint",
    "_timestamp_ms": "bigint",
    "_key": "binary",
    "_value": "binary",
}
"""SQL type by name of the columns that identify a row's changelog record."""
ROW_KEY = ("_partition", "_key")
"""What identifies a row. One key may have a row in each partition: tasks write keys of their own choice."""
PLACE_MEANINGS = {
    "_partition": "The partition of the row's changelog record.",
    "_offset": "The offset of the row's changelog record.",
    "_timestamp_ms": "The timestamp of the row's changelog record, in epoch milliseconds.",
    "_key": "The row's key as bytes, as the changelog has it.",
    "_value": "The row's value as bytes, as the changelog has it.",
}
"""What these columns hold, for the catalogue."""

_NO_FIELDS: Mapping[str, Any] = {}
_OF_DELTA = {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}
_EXACT = Context(prec=76, rounding=ROUND_HALF_UP)
_US_PER_MS = 1000
_MOST_DIGITS = 19  # of a whole number with 64 bits
_FIRST_MS = -62_135_596_800_000  # readers can show the years 1 to 9999
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_as_json = msgspec.json.Encoder(decimal_format="number").encode

ReadFields = Callable[[bytes], Mapping[str, Any]]
"""The fields of a value by name; none if the value has none."""


def snapshot_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The columns of a store's snapshots, in their order: those derived from values, by SQL type, then the others.

    Raises:
        ConfigurationError: no column can have that type.
    """
    return pa.schema([(name, arrow_type(kind)) for name, kind in {**columns, **PLACE_COLUMNS}.items()])


def sql_types(table: DeltaTable) -> dict[str, str]:
    """The SQL type by name of a Delta table's columns, in their order."""
    columns = orjson.loads(table.schema().to_json())["fields"]
    return {column["name"]: _OF_DELTA.get(str(column["type"]), str(column["type"])) for column in columns}


def derived_columns(values: Iterable[bytes | None], columns: Mapping[str, str], read: ReadFields) -> list[pa.Array]:
    """The columns of these names and SQL types, from the fields of values.

    A column is null where the value is None, and where its field is missing or isn't of its type. Decimals are exact,
    and rounded half up to the column's scale. A column of text has what is not text as JSON.

    Raises:
        ConfigurationError: no column can have that type.
    """
    if not columns:
        return []
    rows = [_NO_FIELDS if value is None else read(value) for value in values]
    return [_column(rows, name, arrow_type(kind)) for name, kind in columns.items()]


def _column(rows: Sequence[Mapping[str, Any]], name: str, kind: pa.DataType) -> pa.Array:
    convert = _converter(kind)
    values = [None if (content := fields.get(name)) is None else convert(content) for fields in rows]
    if pa.types.is_timestamp(kind):
        return pa.array(values, pa.int64()).view(kind)
    return pa.array(values, kind)


def _converter(kind: pa.DataType) -> Callable[[Any], Any]:
    if pa.types.is_decimal(kind):
        return _to_decimal(kind.precision, kind.scale)
    if pa.types.is_integer(kind):
        return _to_integer(1 << (kind.bit_width - 1))
    return next((convert for is_it, convert in _CONVERTERS if is_it(kind)), _to_text)


def _to_integer(bound: int) -> Callable[[Any], int | None]:
    def convert(value: Any) -> int | None:
        # JSON Schema takes 5.0 and 1e3 for integers.
        if isinstance(value, Decimal) and value.is_finite() and value.adjusted() < _MOST_DIGITS:
            value = int(value) if value == value.to_integral_value() else None
        return value if type(value) is int and -bound <= value < bound else None

    return convert


def _to_decimal(precision: int, scale: int) -> Callable[[Any], Decimal | None]:
    unit, digits = Decimal(1).scaleb(-scale), precision - scale

    def convert(value: Any) -> Decimal | None:
        if isinstance(value, bool) or not isinstance(value, int | Decimal):
            return None
        try:
            number = Decimal(value).quantize(unit, context=_EXACT)
        except ArithmeticError:
            return None
        return number if number.is_finite() and number.adjusted() < digits else None

    return convert


def _to_microseconds(value: Any) -> int | None:
    if type(value) is int:
        return value * _US_PER_MS if _FIRST_MS <= value <= LAST_MS else None
    at = _parsed(datetime.fromisoformat, value)
    if not isinstance(at, datetime) or at.tzinfo is None:
        return None
    try:
        return (at.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1)
    except OverflowError:  # in UTC it is in none of these years
        return None


def _to_date(value: Any) -> date | None:
    day = _parsed(date.fromisoformat, value)
    return day if type(day) is date else None


def _parsed(parse: Callable[[str], Any], value: Any) -> Any:
    """A time as it is, or from its text in ISO 8601; None if it is none."""
    if not isinstance(value, str):
        return value
    try:
        return parse(value)
    except ValueError:
        return None


def _to_float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return None
    try:
        number = float(value)
    except (ArithmeticError, ValueError):
        return None
    return None if number != number else number  # noqa: PLR0124 (it isn't a number)


def _to_text(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    try:
        text = _as_json(value)
    except TypeError:  # a part has no JSON form
        return None
    return str(msgspec.json.decode(text)) if text.startswith(b'"') else text.decode()


_CONVERTERS: tuple[tuple[Callable[[pa.DataType], bool], Callable[[Any], Any]], ...] = (
    (pa.types.is_timestamp, _to_microseconds),
    (pa.types.is_date, _to_date),
    (pa.types.is_boolean, lambda value: value if isinstance(value, bool) else None),
    (pa.types.is_floating, _to_float),
)


@dataclass(frozen=True, slots=True)
class StoreValues:
    """The values of a store in one generation of its app.

    Attributes:
        fields: those that the app declares, by a struct or a schema.
        registry: of the schemas that wrote the values; None if they are JSON.
        versioned: whether they are versions, of which a deletion has no fields.
    """

    fields: Sequence[ValueField]
    registry: SchemaRegistry | None = None
    versioned: bool = False

    @property
    def evolve(self) -> bool:
        """Whether their fields may change within a generation: a registry lets a schema change compatibly."""
        return self.registry is not None

    def columns_of(self, manifest: SnapshotManifest) -> dict[str, str]:
        """The columns, SQL type by name, that a snapshot has of these values: the declared ones, or if the values
        evolve those that it was written with.
        """
        return dict(manifest.columns) if self.evolve else self._declared()

    def following(self, before: Mapping[str, str]) -> dict[str, str]:
        """The columns that a table has after one with these columns of values, SQL type by name.

        None is lost: a field that the schema has no longer keeps its column, and one of another type gets a column that
        holds the values of both. Where two names differ in upper and lower case alone, the first has a column. A field
        that is named as a technical column has none.
        """
        columns = dict(before) if self.evolve else self._declared()
        spelled = {name.lower(): name for name in columns}
        for name, kind in self._declared().items():
            if spelled.setdefault(name.lower(), name) == name:
                columns[name] = common_type([columns.get(name, kind), kind])
        return columns

    def reader(self) -> ReadFields:
        """A function that reads a value's fields. It raises if the registry doesn't answer."""
        read = json_fields if self.registry is None else _schema_fields(self.registry)
        return _version_fields(read) if self.versioned else read

    def _declared(self) -> dict[str, str]:
        types = {item.name: item.sql_type.replace(" ", "") for item in self.fields}
        return {name: kind for name, kind in types.items() if name.lower() not in TECHNICAL}


def _version_fields(read: ReadFields) -> ReadFields:
    def read_version(stored: bytes) -> Mapping[str, Any]:
        value = value_of_version(stored)
        return {} if value is None else read(value)

    return read_version


def _schema_fields(registry: SchemaRegistry) -> ReadFields:
    from storekeeper.schemas.as_json import JsonView  # noqa: PLC0415 (needs the extra `registry`)

    view = JsonView(registry)

    def read(value: bytes) -> Mapping[str, Any]:
        try:
            return view.fields_of(value)
        except SerializationError:  # a foreign record
            return {}

    return read


def values_of(store: StoreSpec, settings: AppSettings) -> StoreValues:
    """The values of a store, read with the settings' schema registry if they are by schemas."""
    registry = registry_of(settings.kafka_properties) if store.by_schema else None
    return StoreValues(store.value_fields, registry, versioned=store.kind is ServedKind.VERSIONED)
