"""What a run directory tells of apps, snapshots and verdicts. What can't be read is left out, and said in the log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import structlog

from deploy.layout import RunLayout
from quality.verdict import Verdict, VerdictArchive
from spark_apps.heartbeat import Heartbeat, read_heartbeat
from spark_apps.registry import STORES

_log = structlog.get_logger(__name__)
_MANIFEST_FIELD = b"changelog_offsets"
"""Only the commit of a snapshot holds it: tables are also committed to when their files are joined or removed."""


def heartbeats(layout: RunLayout) -> list[Heartbeat]:
    """The last heartbeat of each app, in the order of their names.

    A generation that isn't live goes by the name of its process: nobody could tell it from the live one otherwise.
    """
    found = {path.stem: read_heartbeat(path) for path in sorted(layout.root.glob("heartbeats/*.json"))}
    return [replace(beat, app=name) for name, beat in sorted(found.items()) if beat is not None]


def unread(beat: Heartbeat) -> Iterator[tuple[str, str, int, int]]:
    """Topic and partition of each place where an app reads, its next offset there, and how many come before the end."""
    for topic, partitions in beat.offsets.items():
        ends = beat.latest_offsets.get(topic, {})
        for partition, offset in partitions.items():
            yield topic, partition, offset, max(0, ends.get(partition, offset) - offset)


def snapshot_times_ms(layout: RunLayout) -> dict[str, int]:
    """When the newest snapshot of each store was committed, by the stores' names; those without one are left out."""
    found = {}
    for store in STORES.values():
        commits = sorted(layout.delta.glob(f"{store.table_name}/_delta_log/*.json"), reverse=True)
        newest = next((commit for commit in commits if _MANIFEST_FIELD in commit.read_bytes()), None)
        if newest is not None:
            found[store.name] = int(newest.stat().st_mtime * 1000)
    return found


def last_verdicts(layout: RunLayout) -> dict[str, Verdict]:
    """The quality gate's last decision on each table, by the tables' names."""
    found = ((folder.name, _last(folder)) for folder in sorted(layout.root.glob("quality/verdicts/*")))
    return {table: verdict for table, verdict in found if verdict is not None}


def _last(folder: Path) -> Verdict | None:
    try:
        return VerdictArchive(folder).last()
    except (OSError, ValueError):
        _log.warning("verdict_unreadable", folder=str(folder), exc_info=True)
        return None
