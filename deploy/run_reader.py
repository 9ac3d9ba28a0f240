"""Reads apps, snapshots and verdicts from a run directory. What can't be read is left out and logged."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import orjson
import structlog

from deploy.layout import RunLayout
from quality.resolution import Resolution, ResolutionArchive
from quality.verdict import Verdict, VerdictArchive
from spark_apps.generations.desired_state import Role
from spark_apps.generations.journal import JournalFile
from spark_apps.registry import stores
from spark_apps.runtime.heartbeat import Heartbeat, read_heartbeat
from state.errors import StateError
from state.snapshots.manifest import SnapshotManifest

_log = structlog.get_logger(__name__)
_MANIFEST_FIELD = b"changelog_offsets"
"""Only the commit of a snapshot holds it. Commits that join or remove files don't."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The newest snapshot of a store: when it was committed, and its rows; None if its manifest can't be read."""

    at_ms: int
    rows: int | None


@dataclass(frozen=True, slots=True)
class LastVerdict:
    """The quality gate's last decision on a table, and what somebody decided on the batch since."""

    verdict: Verdict
    resolution: Resolution | None = None

    @property
    def outcome(self) -> str:
        """`published`, `quarantined`, `released` or `discarded`."""
        return str(self.verdict.status if self.resolution is None else self.resolution.action)

    @property
    def is_open(self) -> bool:
        """Whether the batch is quarantined and nobody has decided on it."""
        return not self.verdict.passed and self.resolution is None


def heartbeats(layout: RunLayout) -> list[Heartbeat]:
    """The last heartbeat of each app, in the order of their names.

    A generation that isn't live has the name of its process, to distinguish it from the live one. Retired and
    discarded ones are left out.
    """
    found = {path.stem: read_heartbeat(path) for path in sorted(layout.root.glob("heartbeats/*.json"))}
    return [
        replace(beat, app=name)
        for name, beat in sorted(found.items())
        if beat is not None and not _is_gone(layout, name, beat.app)
    ]


def _is_gone(layout: RunLayout, program: str, app: str) -> bool:
    """Whether a process belongs to a second generation that no longer exists."""
    if program == app or program != Role.NEXT.program(app):
        return False
    try:
        journal = JournalFile(layout.root, app).read()
    except StateError:
        return False
    return journal is None or journal.other is None


def unread(beat: Heartbeat) -> Iterator[tuple[str, str, int, int]]:
    """Topic, partition, next offset and lag in offsets of each partition that an app reads."""
    for topic, partitions in beat.offsets.items():
        ends = beat.latest_offsets.get(topic, {})
        for partition, offset in partitions.items():
            yield topic, partition, offset, max(0, ends.get(partition, offset) - offset)


def behind(beat: Heartbeat) -> int | None:
    """How many offsets an app has still to read; None before its heartbeat has offsets."""
    return sum(left for *_, left in unread(beat)) if beat.offsets and beat.latest_offsets else None


def snapshots(layout: RunLayout) -> dict[str, Snapshot]:
    """The newest snapshot of each store, by the stores' names; those without one are left out."""
    found = {}
    for store in stores().values():
        commits = sorted(layout.delta.glob(f"{store.table_name}/_delta_log/*.json"), reverse=True)
        newest = next((commit for commit in commits if _MANIFEST_FIELD in commit.read_bytes()), None)
        if newest is not None:
            found[store.name] = Snapshot(int(newest.stat().st_mtime * 1000), _rows(newest))
    return found


def _rows(commit: Path) -> int | None:
    """The number of rows in a commit's manifest; None if it can't be read."""
    line = next(line for line in commit.read_bytes().splitlines() if _MANIFEST_FIELD in line)
    try:
        return SnapshotManifest.from_json(orjson.loads(line)["commitInfo"]["userMetadata"]).row_count
    except (StateError, ValueError, TypeError, KeyError):
        _log.warning("snapshot_unreadable", commit=str(commit), exc_info=True)
        return None


def last_verdicts(layout: RunLayout) -> list[LastVerdict]:
    """The quality gate's last decision on each table, in the order of the tables' names."""
    found = (_last(layout, folder) for folder in sorted(layout.root.glob("quality/verdicts/*")))
    return [last for last in found if last is not None]


def _last(layout: RunLayout, folder: Path) -> LastVerdict | None:
    try:
        verdict = VerdictArchive(folder).last()
        if verdict is None:
            return None
        archive = ResolutionArchive(layout.root / "quality" / "resolutions" / folder.name)
        return LastVerdict(verdict, archive.get(verdict.first_version, verdict.last_version))
    except (OSError, ValueError, TypeError, KeyError):
        _log.warning("verdict_unreadable", folder=str(folder), exc_info=True)
        return None
