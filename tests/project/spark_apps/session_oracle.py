"""Sessions by SQL, from nothing but the events and their places: no line of the app's."""

from __future__ import annotations

import duckdb
import pyarrow as pa

from tests.apps.events import Sent

_SESSIONS = """
WITH timed AS (  -- the newest time that the partition had seen by then, this event's included
  SELECT *, max(t) OVER (PARTITION BY part ORDER BY off ROWS UNBOUNDED PRECEDING) AS now FROM events
),
taken AS (  -- what isn't late, each event once
  SELECT DISTINCT part, usr, id, t FROM timed WHERE t + $gap + $grace >= now
),
begun AS (
  SELECT *, CASE WHEN t - lag(t) OVER (PARTITION BY usr ORDER BY t, id) <= $gap THEN 0 ELSE 1 END AS first FROM taken
),
numbered AS (SELECT *, sum(first) OVER (PARTITION BY usr ORDER BY t, id ROWS UNBOUNDED PRECEDING) AS n FROM begun),
sessions AS (SELECT part, usr, n, min(t) AS s, max(t) AS e, count(*) AS c FROM numbered GROUP BY part, usr, n),
ended AS (SELECT part, max(t) AS now FROM events GROUP BY part)
SELECT usr, s, e, c FROM sessions JOIN ended USING (part)
WHERE ceil((e + $retention) / 60000.0) * 60000 > now ORDER BY usr, e, s
"""
_LATE = """
WITH timed AS (
  SELECT *, max(t) OVER (PARTITION BY part ORDER BY off ROWS UNBOUNDED PRECEDING) AS now FROM events
)
SELECT part, count(*) FROM timed WHERE t + $gap + $grace < now GROUP BY part ORDER BY part
"""


def sessions_by_sql(sent: list[Sent], gap_ms: int, grace_ms: int, retention_ms: int) -> dict[tuple[str, int, int], int]:
    """Events by (user, start, end) of every session that is in the store at the end."""
    with _loaded(sent) as connection:
        times = {"gap": gap_ms, "grace": grace_ms, "retention": retention_ms}
        rows = connection.execute(_SESSIONS, times).fetchall()
    return {(user, start, end): count for user, start, end, count in rows}


def late_by_sql(sent: list[Sent], gap_ms: int, grace_ms: int) -> dict[str, int]:
    """Late records by partition."""
    with _loaded(sent) as connection:
        rows = connection.execute(_LATE, {"gap": gap_ms, "grace": grace_ms}).fetchall()
    return {str(partition): count for partition, count in rows}


def _loaded(sent: list[Sent]) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    columns = zip(*(event[:5] for event in sent), strict=True)
    table = pa.table([pa.array(column) for column in columns], ["part", "off", "usr", "id", "t"])
    connection.register("events", table)
    return connection
