"""What every gate does: it decides on a batch, whole, and keeps the verdict.

`quality.table_gate` publishes tables; `quality.snapshot_gate` judges the snapshots of stores where they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from quality.verdict import Outcome, Verdict

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


class Gate(Protocol):
    """Decides on the batches of one table. Hold its lease: one gate at a time."""

    def pending(self) -> Batch | None:
        """The batch to decide on; None if there is none. Starts no Spark."""
        ...

    def last_verdict(self) -> Verdict | None:
        """The newest verdict; None if there is none."""
        ...

    def decide(self, batch: Batch) -> Verdict:
        """Checks the batch, and publishes or quarantines it."""
        ...

    def check_again(self, batch: Batch, publish_as: PublishAs) -> tuple[Outcome, ...]:
        """Checks a batch that was decided on before, leaving verdict and Data Docs as they are."""
        ...

    def metadata_of(self, publisher: str) -> bytes | None:
        """The metadata of a publication of `check_again`; None if there was none."""
        ...


def no_session() -> SparkSession:
    """In place of what starts Spark, for a gate that is only asked what there is."""
    raise AssertionError("looking at batches needs no Spark")
