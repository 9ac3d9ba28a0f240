"""Where the seeds of stores are: what nodes and Spark's workers get. It loads a reader of tables when it needs one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from storekeeper.changelog.seeds import Report, not_reported
from storekeeper.configuration import RunDirSettings
from storekeeper.locations import location

if TYPE_CHECKING:
    from storekeeper.snapshots.seeds import TableSeed


@dataclass(frozen=True, slots=True)
class SeedTables:
    """Where the stores' sealed tables are. A `SeedSource`.

    Attributes:
        tables: the folder of the Delta tables, one a store.
        seals: the folder of their seals.
    """

    tables: str
    seals: str

    @classmethod
    def of(cls, settings: RunDirSettings) -> Self:
        """The tables of a platform."""
        return cls(str(settings.tables), str(settings.seals))

    def newest(self, store: str, report: Report = not_reported) -> TableSeed | None:
        """The newest version of a store's table, None if there is none. All of its files were compared with its seal.

        Raises:
            SnapshotDamagedError: the table isn't as it was sealed.
            TablesUnreachableError: its store doesn't answer.
            ImportError: deltalake is not installed.
        """
        # Imported here: the reader of Delta tables is an extra.
        from storekeeper.snapshots.seal import SealedTable  # noqa: PLC0415
        from storekeeper.snapshots.seeds import newest_seed  # noqa: PLC0415

        sealed = SealedTable(location(self.tables) / store, location(self.seals) / f"{store}.json")
        return newest_seed(sealed, report)
