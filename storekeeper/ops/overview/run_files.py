"""Reads heartbeats, snapshots, verdicts and exits from a run directory. What can't be read is left out and logged."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import orjson
import structlog

from storekeeper.delta_files import commit_files
from storekeeper.engine.runtime.heartbeat import Heartbeat, read_heartbeat
from storekeeper.errors import StateError, TablesUnreachableError
from storekeeper.generations.desired_state import Role
from storekeeper.generations.journal import GenerationState, Journal, JournalFile
from storekeeper.locations import Location
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.overview.model import LastVerdict, Snapshot
from storekeeper.quality.resolution import ResolutionArchive
from storekeeper.quality.verdict import VerdictArchive
from storekeeper.snapshots.manifest import SnapshotManifest
from storekeeper.verification.check_verdict import CheckVerdict, last_verdict

T = TypeVar("T")

_log = structlog.get_logger(__name__)
_MANIFEST_FIELD = b"changelog_offsets"
"""Only the commit of a snapshot holds it. Commits that join or remove files don't."""
_EXIT = re.compile(r"(\S+ \S+),(\d{3}) \w+ (supervisord started|exited: (\S+) \((.*); (?:not )?expected\))")


def heartbeats(layout: RunLayout, durable: Location) -> dict[str, Heartbeat]:
    """The last heartbeat of each app, by its name.

    A generation that isn't live has the name of its process, to distinguish it from the live one. Retired and
    discarded ones are left out.
    """
    beats = {path.stem: read_heartbeat(path) for path in sorted(layout.root.glob("heartbeats/*.json"))}
    return {name: beat for name, beat in beats.items() if beat is not None and not _is_gone(durable, name, beat.app)}


def _is_gone(durable: Location, program: str, app: str) -> bool:
    """Whether a process belongs to a second generation that no longer exists."""
    if program == app or program != Role.NEXT.program(app):
        return False
    try:
        journal = JournalFile(durable, app).read()
    except StateError:
        return False
    return journal is None or journal.other is None


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a process's generation among those of its app: its role, and how far a change is, in words."""

    role: str
    change: str = ""


def places(durable: Location, apps: Iterable[str]) -> dict[str, Place]:
    """By the processes' names; apps that have never changed are left out. If the journals' store doesn't answer, or a
    journal is damaged, that is left out too.
    """
    by_app: dict[str, Place] = {}
    for app in apps:
        try:
            journal = JournalFile(durable, app).read()
        except StateError as error:
            _log.warning("journal_not_read", app=app, error=str(error))
            continue
        if journal is None:
            continue
        change = _change(journal)
        by_app[Role.LIVE.program(app)] = Place("live", change)
        if journal.other is not None:
            role = "standby" if journal.other.state is GenerationState.STANDBY else "candidate"
            by_app[Role.NEXT.program(app)] = Place(role, change)
    return by_app


def _change(journal: Journal) -> str:
    transfer, candidate = journal.transfer, journal.candidate
    if transfer is not None:
        phase = transfer.phase.lower()
        return f"generation {transfer.source} hands over to generation {transfer.target} ({phase})"
    return "" if candidate is None else f"generation {candidate.number} is {candidate.state.lower()}"


def snapshots(tables: Location, stores: Iterable[str]) -> dict[str, Snapshot]:
    """The newest snapshot of each store, by the stores' names; those without one are left out. If the tables' store
    doesn't answer, there is none.
    """
    newest = {}
    try:
        for store in stores:
            snapshot = _newest_snapshot(tables / store)
            if snapshot is not None:
                newest[store] = snapshot
    except TablesUnreachableError as error:
        _log.warning("snapshots_not_read", error=str(error))
    return newest


def _newest_snapshot(table: Location) -> Snapshot | None:
    for file in sorted(commit_files(table), reverse=True):
        for line in file.read_bytes().splitlines():
            if _MANIFEST_FIELD in line:
                return _snapshot(file, line)
    return None


def _snapshot(file: Location, line: bytes) -> Snapshot | None:
    """The snapshot of a commit; without its number of rows if its manifest can't be read."""
    try:
        commit = orjson.loads(line)["commitInfo"]
        made_ms = int(commit["timestamp"])
    except (ValueError, TypeError, KeyError):
        _log.warning("snapshot_unreadable", commit=str(file), exc_info=True)
        return None
    try:
        return Snapshot(made_ms, SnapshotManifest.from_json(commit["userMetadata"]).row_count)
    except (StateError, ValueError, TypeError, KeyError):
        _log.warning("snapshot_unreadable", commit=str(file), exc_info=True)
        return Snapshot(made_ms, None)


def last_verdicts(layout: RunLayout) -> list[LastVerdict]:
    """The quality gate's last decision on each table, in the order of the tables' names."""
    return _read(layout.root.glob("quality/verdicts/*"), lambda folder: _last_verdict(layout, folder))


def _last_verdict(layout: RunLayout, folder: Path) -> LastVerdict | None:
    verdict = VerdictArchive(folder).last()
    if verdict is None:
        return None
    archive = ResolutionArchive(layout.root / "quality" / "resolutions" / folder.name)
    return LastVerdict(verdict, archive.get(verdict.first_version, verdict.last_version))


def checks(layout: RunLayout) -> list[CheckVerdict]:
    """The last verdict of each check of each store."""
    return _read((folder for folder in layout.root.glob("quality/verdicts/*/*") if folder.is_dir()), last_verdict)


def _read(folders: Iterable[Path], last: Callable[[Path], T | None]) -> list[T]:
    verdicts = []
    for folder in sorted(folders):
        try:
            verdicts.append(last(folder))
        except (OSError, ValueError, TypeError, KeyError):
            _log.warning("verdict_unreadable", folder=str(folder), exc_info=True)
    return [verdict for verdict in verdicts if verdict is not None]


@dataclass(frozen=True, slots=True)
class Exits:
    """How often a process has ended by itself, and how and when it last did."""

    count: int
    last: str
    last_at_ms: int


def exits(layout: RunLayout) -> dict[str, Exits]:
    """The processes that have ended by themselves since the platform was started, by name.

    Those stopped on purpose are left out.
    """
    try:
        lines = (layout.supervisor / "supervisord.log").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return {}
    return exits_in(lines)


def exits_in(lines: Iterable[str]) -> dict[str, Exits]:
    """The same from the lines of the supervisor's log, since its last start."""
    ended: dict[str, Exits] = {}
    for line in lines:
        match = _EXIT.match(line)
        if match is None:
            continue
        if match[4] is None:
            ended.clear()
            continue
        # The log has local time, which is what a datetime without a zone stands for.
        at_ms = int(datetime.fromisoformat(match[1]).timestamp() * 1000) + int(match[2])
        before = ended.get(match[4])
        ended[match[4]] = Exits(1 if before is None else before.count + 1, match[5], at_ms)
    return ended
