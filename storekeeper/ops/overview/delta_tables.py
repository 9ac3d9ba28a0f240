"""The Delta tables of a platform: what each holds, how old it is, and what was found in it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from storekeeper.errors import InvalidArgumentError, StorageError
from storekeeper.locations import Location
from storekeeper.quality.verdict import VerdictArchive
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.columns import sql_types
from storekeeper.snapshots.delta_log import Commit, commits, open_table
from storekeeper.snapshots.history_reads import StoreHistory
from storekeeper.snapshots.sql import list_tables
from storekeeper.verification.check_verdict import last_verdict, verdict_folder


def list_of_tables(root: Location, run_dir: Path, now_ms: int) -> Iterator[dict[str, Any]]:
    """A row for each table: what it holds, its newest version and its age, the last verdicts and theirs.

    A table that can't be read has the reason in `error`.
    """
    for name in list_tables(root):
        path = root / name
        try:
            yield _summary(path, run_dir, now_ms)
        except StorageError as error:
            yield {"table": name, "error": str(error)}


def table_in_full(path: Location, run_dir: Path, now_ms: int, most_versions: int) -> dict[str, Any]:
    """One table: its summary, its columns with their comments, and its newest versions.

    Raises:
        InvalidArgumentError: there is no such table.
        SnapshotDamagedError: it can't be read.
    """
    known = list_tables(path.parent)
    if path.name not in known:
        raise InvalidArgumentError(f"there is no table {path.name[:140]!r}: there are {', '.join(known) or 'none yet'}")
    table = open_table(path)
    columns = [
        {"column": item.name, "type": sql_types(table)[item.name], "comment": item.metadata.get("comment")}
        for item in table.schema().fields
    ]
    checked = _good_versions(run_dir, path.name)
    versions = [_version(commit, checked, now_ms) for commit in islice(commits(path), most_versions)]
    return {**_summary(path, run_dir, now_ms), "columns": columns, "versions": versions}


def _summary(path: Location, run_dir: Path, now_ms: int) -> dict[str, Any]:
    table = open_table(path)
    newest = next(commits(path))
    made_at_ms = newest.info.get("timestamp")
    return {
        "table": path.name,
        "holds": table.metadata().description,
        "rows": table.count(),
        "version": newest.version,
        "made_at_ms": made_at_ms,
        "age": _age(made_at_ms, now_ms),
        **_exact(path),
        **_verified(run_dir, path.name, now_ms),
        **_checked(run_dir, path.name, now_ms),
    }


def _exact(path: Location) -> dict[str, Any]:
    """For which times the history of a store is exact."""
    history = StoreHistory.beside(path.with_name(path.name.removesuffix(HISTORY)))
    if history is None or not path.name.endswith(HISTORY):
        return {}
    covered = history.coverage
    return {"earliest_exact_at_ms": covered.from_ms, "latest_exact_at_ms": covered.to_ms, "gaps": len(covered.gaps)}


def _verified(run_dir: Path, table: str, now_ms: int) -> dict[str, Any]:
    verdict = last_verdict(verdict_folder(run_dir, "verify", table))
    if verdict is None:
        return {}
    found = "equal" if verdict.passed else "differs"
    return {"verified": f"{found}, {_age(verdict.decided_at_ms, now_ms)} ago"}


def _checked(run_dir: Path, table: str, now_ms: int) -> dict[str, Any]:
    verdict = next(VerdictArchive(run_dir / "quality" / "verdicts" / table).newest_first(), None)
    if verdict is None:
        return {}
    return {"checked": f"{verdict.status}, {_age(verdict.decided_at_ms, now_ms)} ago"}


def _good_versions(run_dir: Path, table: str) -> dict[int, str]:
    verdicts = VerdictArchive(run_dir / "quality" / "verdicts" / table).newest_first()
    return {verdict.last_version: str(verdict.status) for verdict in verdicts}


def _version(commit: Commit, checked: dict[int, str], now_ms: int) -> dict[str, Any]:
    made_at_ms = commit.info.get("timestamp")
    return {
        "version": commit.version,
        "made_at_ms": made_at_ms,
        "age": _age(made_at_ms, now_ms),
        "operation": commit.info.get("operation"),
        **_manifest(commit),
        "checked": checked.get(commit.version),
    }


def _manifest(commit: Commit) -> dict[str, Any]:
    """What the commit of a snapshot says of it."""
    manifest = commit.manifest
    if manifest is None:
        return {}
    return {"rows": manifest.row_count, "generation": manifest.generation, "offsets": dict(manifest.changelog_offsets)}


_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))


def _age(at_ms: int | None, now_ms: int) -> str:
    """How long ago a time is, in its largest unit."""
    if at_ms is None:
        return ""
    past_ms = max(0, now_ms - at_ms)
    size, unit = next((each for each in _UNITS if past_ms >= each[0]), _UNITS[-1])
    return f"{past_ms // size} {unit}"
