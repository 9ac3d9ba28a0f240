"""The seals of the quality gate's tables: what its last decision left in them, kept outside of them.

A seal is of a version: the log up to it, and the data files that it shows. Anybody may append to a staged table; what
is behind the sealed version is the next batch, which the gate judges. Only the gate writes a published table, so a
commit behind its seal is another program's. A table without a seal is taken as it is.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from urllib.parse import unquote

from deltalake.exceptions import DeltaError

from storekeeper.apps.checked_table import CheckedTable
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.seeds import Report, not_reported
from storekeeper.delta_files import is_table
from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import FileState, Location, files_below
from storekeeper.snapshots.delta_log import delta_table
from storekeeper.snapshots.seal import POINTERS, FileDifference, Seal, SealedTable

_BESIDE = re.compile(r"\.(crc|tmp)$")
"""Files of a log that a reader can do without, and that a writer may leave later, or for good."""


class GatedTable(SealedTable):
    """A table of the gate, and its seal. Who seals it holds the gate's lease.

    Args:
        path: the table's folder.
        file: the seal.
        shared: whether others append to it.
    """

    def __init__(self, path: Location, file: Location, *, shared: bool) -> None:
        super().__init__(path, file)
        self._shared = shared

    @classmethod
    def staged(cls, settings: AppSettings, table: CheckedTable) -> GatedTable:
        """The table that its rows are staged in."""
        return cls._named(settings, table.staged_name, shared=True)

    @classmethod
    def published(cls, settings: AppSettings, table: CheckedTable) -> GatedTable:
        """The table that readers see."""
        return cls._named(settings, table.name, shared=False)

    @classmethod
    def _named(cls, settings: AppSettings, name: str, *, shared: bool) -> GatedTable:
        # In a folder of their own: those beside it are of stores.
        return cls(settings.delta_table(name), settings.seals / "gated" / f"{name}.json", shared=shared)

    def current(self, *, whole: bool = False, report: Report = not_reported) -> Seal | None:
        """The seal, compared with the table; None if nothing was sealed.

        Args:
            whole: read the content of all sealed files, also of those that seem to be unchanged.
            report: called with the number of files that were compared, and of all.

        Raises:
            SnapshotDamagedError: the table is not what the seal says; the message names the first files.
            TablesUnreachableError: the store of the tables doesn't answer.
        """
        return None if self.read() is None else super().current(whole=whole, report=report)

    def take_over(self) -> None:
        """Compares the table, and seals what a gate has left that died before it could seal its commit.

        Raises:
            SnapshotDamagedError, TablesUnreachableError: as `current`.
        """
        seal = self.current()
        if seal is not None and seal.writing:
            self.sealed()

    def seal_version(self, version: int) -> None:
        """Seals the table up to a version, which may be an earlier one than its newest.

        Raises:
            SnapshotDamagedError: that version can't be read, or the old seal is damaged.
        """
        self._write(self._of_version(self.read() or Seal(), version))

    def _differences(
        self, seal: Seal, found: Mapping[str, FileState], *, whole: bool, report: Report = not_reported
    ) -> list[FileDifference]:
        everything = super()._differences(seal, found, whole=whole, report=report)
        wrong = [one for one in everything if self._counts(one, seal)]
        if wrong or seal.version is None:
            return wrong
        data = {name for name in seal.files if not name.startswith("_delta_log/")}
        return [] if self._shown(seal.version) == data else [FileDifference("_delta_log", "changed")]

    def _counts(self, one: FileDifference, seal: Seal) -> bool:
        """Whether a difference is one: logs lose old files as they go on, and failed writers leave data behind."""
        if one.kind == "changed" or one.log_version is None:
            return one.kind != "added"
        if one.kind == "gone":
            return one.name == f"_delta_log/{seal.version:020}.json"
        return not self._shared and not _BESIDE.search(one.name)

    def _made(self, before: Seal) -> Seal:
        return self._of_version(before, delta_table(self.path).version()) if is_table(self.path) else Seal()

    def _of_version(self, before: Seal, version: int) -> Seal:
        made_ns, shown = time.time_ns(), self._shown(version)
        files = {
            name: self._file(before, name, state)
            for name, state in files_below(self.path).items()
            if name in shown or self._is_of_log(name, version)
        }
        return Seal(version, None, files, made_ns)

    def _is_of_log(self, name: str, version: int) -> bool:
        of = FileDifference(name, "added").log_version
        if of is None:
            return name in POINTERS and not self._shared
        return of <= version and not name.endswith(".tmp")

    def _shown(self, version: int) -> set[str]:
        """The data files of a version."""
        try:
            paths = delta_table(self.path, version).get_add_actions()["path"].to_pylist()
        except (DeltaError, OSError) as error:
            what = f"can't be read at version {version}: {str(error).partition(chr(10))[0]}"
            raise self._damaged(what) from error
        return {unquote(path) for path in paths}

    def _differing(self, seal: Seal | None, wrong: list[FileDifference], *, is_gone: bool) -> SnapshotDamagedError:
        if seal is not None and is_gone:
            return self._damaged(f"is gone from {self.path}: it was sealed at version {seal.version}")
        return super()._differing(seal, wrong, is_gone=is_gone)

    def _damaged(self, what: str) -> SnapshotDamagedError:
        return SnapshotDamagedError(
            f"table {self.path.name} {what}. Put back what was there. Or, if the change is yours, move {self.file} "
            "away: the next check seals the table as it is"
        )
