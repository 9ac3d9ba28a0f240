"""The Arrow types of columns, by their Spark SQL types."""

from __future__ import annotations

import pyarrow as pa

from storekeeper.schemas.sql_types import decimal_size

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
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
}


def arrow_type(sql_type: str) -> pa.DataType:
    """The Arrow type of a column of a Spark SQL type.

    Raises:
        ConfigurationError: no column of a snapshot can have it.
    """
    size = decimal_size(sql_type)
    return _TYPES[sql_type] if size is None else pa.decimal128(*size)
