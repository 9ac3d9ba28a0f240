"""What every gate does: it decides on a batch, whole, and keeps the verdict.

`storekeeper.quality.table_gate` publishes tables; `storekeeper.quality.snapshot_gate` judges the snapshots of stores
where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from storekeeper.quality.verdict import Outcome

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Batch:
    """The versions to decide on, both inclusive: staged ones, or that of a snapshot."""

    first_version: int
    last_version: int


@dataclass(frozen=True, slots=True)
class Publication:
    """Identifies a commit of the published table: each publisher and version is committed only once."""

    publisher: str
    version: int
    metadata: bytes


PublishAs = Callable[[tuple[Outcome, ...]], Publication | None]
"""How rows with these outcomes are published; None if they aren't."""


def no_session() -> SparkSession:
    """Takes the place of what starts Spark in a gate that only lists batches: it must never be called."""
    raise AssertionError("listing batches needs no Spark")
