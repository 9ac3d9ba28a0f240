"""Sales in windows by SQL, from nothing but the invoices and their places: no line of the app's."""

from __future__ import annotations

from typing import Any

import duckdb
import pyarrow as pa

from tests.apps.events import Sent

_BASE = """
WITH kinds(store, size, hop) AS (VALUES ('sales', $size, $size), ('sales-hopping', $size, $hop)),
timed AS (  -- the newest time that the partition had seen by then, this invoice's included
  SELECT *, max(t) OVER (PARTITION BY part ORDER BY off ROWS UNBOUNDED PRECEDING) AS now FROM invoices
),
placed AS (  -- every invoice in every window that holds its time
  SELECT part, off, shop, id, t, store, n * hop AS start, n * hop + $size + $grace > now AS is_open
  FROM timed CROSS JOIN kinds CROSS JOIN LATERAL (SELECT unnest(range((t - size) // hop + 1, t // hop + 1)) AS n)
),
summed AS (
  SELECT part, off, shop, id, t, count(*) FILTER (is_open) AS taking, count(*) AS windows FROM placed
  GROUP BY part, off, shop, id, t
),
first AS (  -- the first coming of each invoice that some window takes
  SELECT * FROM summed WHERE taking > 0
  QUALIFY row_number() OVER (PARTITION BY shop, id, t ORDER BY off) = 1
)
"""
_SALES = """
SELECT store, shop || '/' || item AS key, start, count(DISTINCT id) AS sales, sum(qty) AS qty, sum(cents) AS cents
FROM placed JOIN first USING (part, off, shop, id, t) JOIN lines USING (part, off)
JOIN (SELECT part, max(t) AS final FROM invoices GROUP BY part) USING (part)
WHERE is_open AND ceil((start + $size + $retention) / 60000.0) * 60000 > final
GROUP BY store, key, start
"""
_LATE = """
SELECT part, count(*) FROM summed LEFT JOIN first USING (part, off)
WHERE summed.taking = 0 OR (first.off IS NOT NULL AND summed.taking < summed.windows) GROUP BY part
"""

Row = tuple[int, int, int]


def sales_by_sql(sent: list[Sent], times: dict[str, int]) -> dict[str, dict[tuple[str, int], Row]]:
    """Per store: (sales, quantity, cents) by (key, start) of every window that is in it at the end."""
    found: dict[str, dict[tuple[str, int], Row]] = {"sales": {}, "sales-hopping": {}}
    for store, key, start, *row in _loaded(sent).execute(_BASE + _SALES, times).fetchall():
        found[store][key, start] = (int(row[0]), int(row[1]), int(row[2]))
    return found


def late_by_sql(sent: list[Sent], times: dict[str, int]) -> dict[str, int]:
    """Late invoices by partition."""
    wanted = {name: value for name, value in times.items() if name != "retention"}
    return {str(partition): count for partition, count in _loaded(sent).execute(_BASE + _LATE, wanted).fetchall()}


def _loaded(sent: list[Sent]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.register("invoices", _table(["part", "off", "shop", "id", "t"], [event[:5] for event in sent]))
    lines: list[tuple[Any, ...]] = [
        (event.partition, event.offset, line["ItemCode"], line["ItemQty"], round(line["TotalValue"] * 100))
        for event in sent
        for line in event.value["InvoiceLineItems"]
    ]
    connection.register("lines", _table(["part", "off", "item", "qty", "cents"], lines))
    return connection


def _table(names: list[str], rows: list[tuple[Any, ...]]) -> pa.Table:
    return pa.table([pa.array(column) for column in zip(*rows, strict=True)], names)
