"""The time that each record of a history was given, by the manifests of the history's commits.

A record of a batch has the batch's time. It has another one only where two clocks did not agree, or an era begins: then
that of the nearest end of its commit.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from storekeeper.errors import SerializationError
from storekeeper.locations import Location
from storekeeper.snapshots.delta_log import commits
from storekeeper.snapshots.history import HistoryManifest
from storekeeper.snapshots.new_changes import Mark


@dataclass(frozen=True, slots=True)
class CommitTimes:
    """The commits of a history, the oldest first, without those taken back. `are_all`: the log still has them all."""

    manifests: Sequence[HistoryManifest]
    are_all: bool

    @classmethod
    def of(cls, path: Location) -> Self:
        """The commits of the history at `path`, as far back as its log reaches.

        Raises:
            SnapshotDamagedError: the log is damaged.
        """
        found: list[HistoryManifest] = []
        oldest = 0
        for commit in commits(path):
            oldest = commit.version
            with suppress(SerializationError):
                found.append(HistoryManifest.from_json(commit.info.get("userMetadata") or ""))
        kept: list[HistoryManifest] = []
        for manifest in reversed(found):
            while kept and _is_ahead(kept[-1], manifest):
                kept.pop()
            kept.append(manifest)
        return cls(kept, oldest == 0)

    def gave(self, at_ms: int, partition: int, offset: int, mark: Mark) -> bool:
        """Whether a record of the newest era, whose headers say `mark`, may have been given this time."""
        if mark.at_ms is None:
            return True
        newest, before = self.manifests[-1], None
        for one in self.manifests:
            if _same_era(one, newest) and one.changelog_offsets.get(partition, 0) > offset:
                break
            before = one
        else:
            return False
        if before is not None:
            earliest = {before.exact_to_ms + 1 if _same_era(before, newest) else one.exact_to_ms}
        elif self.are_all:
            earliest = {0, one.exact_to_ms}
        else:
            return True
        of_others_ms = 0 if mark.is_of_batch(one.generation) else max(one.read_at_ms, *earliest)
        latest_ms = max(one.exact_to_ms, of_others_ms)
        return at_ms in {max(min(mark.at_ms, latest_ms), first_ms) for first_ms in earliest}


def _same_era(one: HistoryManifest, other: HistoryManifest) -> bool:
    return one.changelog_topic == other.changelog_topic and one.eras[-1] == other.eras[-1]


def _is_ahead(one: HistoryManifest, other: HistoryManifest) -> bool:
    """Whether a commit says more than a later one. Then nobody has built on it."""
    ends = other.changelog_offsets
    further = any(end > ends.get(partition, 0) for partition, end in one.changelog_offsets.items())
    return one.exact_to_ms > other.exact_to_ms or (_same_era(one, other) and further)
