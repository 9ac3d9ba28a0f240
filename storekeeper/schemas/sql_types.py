"""The SQL types that a column of a snapshot can have. Free of Arrow: specs are checked where it is not loaded."""

from __future__ import annotations

import re

from storekeeper.errors import ConfigurationError

PLAIN_TYPES = (
    "string", "binary", "boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "date", "timestamp"
)  # fmt: skip
_DECIMAL = re.compile(r"decimal\((\d+), ?(\d+)\)")


def decimal_size(sql_type: str) -> tuple[int, int] | None:
    """Precision and scale of a decimal type; None of any other one.

    Raises:
        ConfigurationError: no column of a snapshot can have it.
    """
    match = _DECIMAL.fullmatch(sql_type)
    if match is None and sql_type not in PLAIN_TYPES:
        msg = f"a value field can't be of SQL type {sql_type}: use {', '.join(PLAIN_TYPES)} or decimal(precision,scale)"
        raise ConfigurationError(msg)
    return None if match is None else (int(match[1]), int(match[2]))
