"""What waits to be checked: the staged versions of a table that nobody has decided on. Starts no Spark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from quality.gate import no_session
from quality.settings import QualitySettings
from quality.table_gate import TableGate
from spark_apps.registry import gated_tables
from state.clock import Clock
from state.snapshots.damage import delta_table

_COUNTS = ("numOutputRows", "num_added_rows")
"""How the metrics of a commit name its rows: Spark's, and those of deltalake."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """Staged versions that wait, both inclusive, and their rows; None if a commit doesn't say how many it added."""

    first_version: int
    last_version: int
    rows: int | None


def waiting_of(table: str, settings: QualitySettings, clock: Clock) -> Waiting | None:
    """What waits of a table that the gate publishes; None if nothing does.

    Raises:
        StagedTableError: the staged table can't be checked as it is.
        TablesUnreachableError: the store of the tables doesn't answer.
    """
    declared = gated_tables()[table]
    batch = TableGate(declared, settings, clock, no_session).pending()
    if batch is None:
        return None
    commits = delta_table(settings.delta_table(declared.staged_name)).history()
    counts = [_rows_of(one) for one in commits if batch.first_version <= one["version"] <= batch.last_version]
    known = [count for count in counts if count is not None]
    return Waiting(batch.first_version, batch.last_version, sum(known) if len(known) == len(counts) else None)


def _rows_of(commit: Mapping[str, Any]) -> int | None:
    """The rows that a commit added, as its metrics say; 0 for one that only made the table."""
    if str(commit.get("operation", "")).startswith("CREATE TABLE"):
        return 0
    metrics = commit.get("operationMetrics") or {}
    return next((int(metrics[name]) for name in _COUNTS if name in metrics), None)
