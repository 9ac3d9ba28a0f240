"""Arrays hold values as they were given, or refuse them."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from storekeeper.engine.table_sink.exact_array import exact_array
from storekeeper.schemas.arrow_types import arrow_type

DAY = date(2026, 1, 2)
AT = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)
FAR = timezone(timedelta(hours=5))


@pytest.mark.parametrize(
    ("sql_type", "value"),
    [
        *((kind, value) for kind in ("tinyint", "bigint") for value in (1.5, Decimal("1.5"), np.float32(0.5))),
        *((kind, value) for kind in ("int", "double", "float", "date", "decimal(6,2)") for value in (True, np.True_)),
        *((kind, math.nan) for kind in ("int", "date", "timestamp", "decimal(6,2)")),
        *(("tinyint", value) for value in (128, 128.0, Decimal(128), math.inf)),
        *(("bigint", value) for value in (2**63, "1", b"1", np.datetime64("2026-01-01T00:00:00.1", "ns"))),
        *(("float", value) for value in (1e300, -1e300, np.float64(1e300), "1")),
        *(("date", value) for value in (AT, AT.replace(tzinfo=None), 1.5, Decimal("0.5"), "2026-01-02")),
        *(("timestamp", value) for value in (1.5, Decimal("1.5"), "2026-01-02T00:00:00Z")),
        ("timestamp", pd.Timestamp("2026-01-02T00:00:00.000000001Z")),
        *(("decimal(6,2)", value) for value in (Decimal("1.234"), Decimal(10_000), 1.5, "1")),
        *(("string", value) for value in (1, b"\xff", "\ud800")),
    ],
)
def test_a_value_that_would_be_cut_is_refused(sql_type: str, value: Any) -> None:
    for values in ([value], [None, value, None]):
        with pytest.raises((pa.ArrowException, ValueError, TypeError, OverflowError)):
            exact_array(values, arrow_type(sql_type))


@pytest.mark.parametrize(
    ("sql_type", "value", "stored"),
    [
        *(("int", value, 3) for value in (3, 3.0, Decimal("3.0"), np.int64(3), np.float64(3))),
        *(("double", value, 3.0) for value in (3, 3.0, np.int64(3))),
        ("double", math.inf, math.inf),
        *(("float", value, 0.5) for value in (0.5, np.float32(0.5))),
        ("float", -math.inf, -math.inf),
        *(
            ("date", value, DAY)
            for value in (DAY, datetime(2026, 1, 2, tzinfo=FAR), pd.Timestamp("2026-01-02"), 20_455)
        ),
        *(("timestamp", value, AT) for value in (AT, AT.astimezone(FAR), AT.replace(tzinfo=None), pd.Timestamp(AT))),
        ("decimal(6,2)", Decimal("1.5"), Decimal("1.50")),
        ("string", "a", "a"),
        ("binary", b"a", b"a"),
        ("boolean", True, True),
    ],
)
def test_a_value_that_fits_is_kept(sql_type: str, value: Any, stored: Any) -> None:
    assert exact_array([value, None], arrow_type(sql_type)).to_pylist() == [stored, None]
