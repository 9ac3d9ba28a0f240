"""The last good version of a table, for readers that are pinned to it. Free of Spark and of Great Expectations."""

from __future__ import annotations

from pathlib import Path

from quality.resolution import Action, ResolutionArchive
from quality.verdict import VerdictArchive
from spark_apps.registry import gated_tables, store_named
from state.errors import InvalidArgumentError


def last_good_version(run_dir: Path, name: str) -> int | None:
    """The newest version of a store's snapshots that passed or was released. None: every version of the table is good,
    as the gate publishes it.

    Raises:
        UnknownStoreError: there is no such store, nor a table that the gate publishes.
        InvalidArgumentError: no version of the store's snapshots is good yet.
    """
    if name in gated_tables():
        return None
    store_named(name)
    resolutions = ResolutionArchive(run_dir / "quality" / "resolutions" / name)
    for verdict in VerdictArchive(run_dir / "quality" / "verdicts" / name).newest_first():
        decided = resolutions.get(verdict.first_version, verdict.last_version)
        if verdict.passed or (decided is not None and decided.action is Action.RELEASED):
            return verdict.last_version
    msg = f"no version of table {name} is good yet: `storekeeper check table {name}` checks the newest"
    raise InvalidArgumentError(msg)
