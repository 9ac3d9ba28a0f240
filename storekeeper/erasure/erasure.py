"""Erasing keys of a store for good. One call does what can be done now; the last one leaves a certificate.

1. The rows are deleted in the changelog, as by a clean-up. A row that its app writes meanwhile is for the next call.
2. The tables go on to these deletions. Archives of clean-ups that have the keys are deleted.
3. Kafka's cleaner removes the records: old values after `min.compaction.lag.ms`, deletions after `delete.retention.ms`.
   What it has removed leaves the history too, with the earlier versions of both tables.
4. Once a whole read of the changelog finds no record, nodes and tasks make the copies of its partitions anew.
5. All that the project keeps is searched for the keys' bytes, and the certificate says what was done, read and found.

Each step looks at what is there, so a call that died is simply repeated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Protocol

from storekeeper.clock import Clock
from storekeeper.erasure.changelog import ErasedLog, Place
from storekeeper.erasure.folder import ErasureFolder, ErasurePlan, Noted
from storekeeper.erasure.keys import LEAST_BYTES, ErasedKeys
from storekeeper.erasure.search import Searched
from storekeeper.erasure.tables import ErasedTables, TakeSnapshot
from storekeeper.errors import RefusedError, RetriableError

NOT_SEARCHED = (
    "source topics and outputs, which are yours, and whatever reads them",
    "backups, file-system snapshots and versions that a bucket keeps of deleted files",
    "logs of processes, metrics and traces; Airflow's database; temporary files of processes that were killed",
    "local stores on other machines than this one, and rows of tasks in memory or on Redis: they follow the changelog",
    "partitions that a node has given up within the last hour",
    "free blocks of disks, and segments that the broker has yet to delete (`file.delete.delay.ms`)",
    f"keys shorter than {LEAST_BYTES} bytes, where they are not keys of rows",
    "keys as numbers, or encoded in another way than plain or as JSON escapes them",
)
"""What a certificate says nothing about."""


class ErasureRefusedError(RefusedError):
    """Something that a person has asked for keeps the keys. Nothing was changed; the message names it."""


class ErasurePendingError(RetriableError):
    """The erasure is not complete yet: the message says what it waits for. The same call goes on."""


class Copies(Protocol):
    """The copies of the store on nodes and tasks."""

    def renew(self, keys: ErasedKeys, noted: Noted) -> list[str]:
        """Has them made anew; returns what is awaited."""
        ...


@dataclass
class Erasure:
    """One erasure.

    Attributes:
        plan: its plan.
        folder: where it is kept.
        log: the changelog.
        tables: the store's tables.
        snapshot: takes the tables on.
        upkeep: holds the lease of the tables.
        copies: the other copies.
        holds: what keeps the keys, in sentences.
        forget: deletes archives of clean-ups that have the keys; returns the clean-ups' ids.
        search: searches everything.
        not_searched: what it does not, in words.
        clock: the clock.
    """

    plan: ErasurePlan
    folder: ErasureFolder
    log: ErasedLog
    tables: ErasedTables
    snapshot: TakeSnapshot
    upkeep: Callable[[], AbstractContextManager[object]]
    copies: Copies
    holds: Callable[[ErasedKeys], Sequence[str]]
    forget: Callable[[ErasedKeys], Sequence[str]]
    search: Callable[[ErasedKeys], Searched]
    not_searched: Sequence[str]
    clock: Clock

    def run(self) -> dict[str, Any]:
        """Does what can be done now; returns the certificate.

        Raises:
            ErasureRefusedError: something keeps the keys.
            ErasurePendingError: something is to be awaited.
        """
        done = self.folder.certificate(self.plan.erasure_id)
        if done is not None:
            return done
        noted = self.folder.noted(self.plan.erasure_id)
        keys = noted.erased_keys(self.plan.kind)
        self._repair_config(noted)
        check_holds(self.holds(keys))
        noted.see(self.tables.row_keys(keys))
        deleted = self.log.delete(keys, self.plan.erasure_id)
        ends, places = self._ends(), self._noted_places(keys, noted)
        if deleted:
            noted.note(f"{deleted} rows were deleted in the changelog at {iso(self.clock.now_ms())}")
        for cleanup_id in self.forget(keys):
            noted.note(f"the archive of clean-up {cleanup_id} was deleted")
        self._keep(noted)
        self._reach(places)
        if places:
            self.log.compact(places, lambda before: self._changing(noted, before))
            ends, places = self._ends(), self._noted_places(keys, noted)
        self._drop(keys, places, ends, noted)
        if places:
            raise self._pending(self._awaited(places))
        self._renew(keys, noted)
        searched = self.search(keys)
        if searched.rows:
            why = f"{searched.rows[0]} still has rows of them"
            raise self._pending(why)
        if self.log.places(keys):
            why = f"{self.plan.app} has written them again"
            raise self._pending(why)
        certificate = self._certificate(keys, noted, searched)
        self.folder.certify(self.plan.erasure_id, certificate)
        return certificate

    def _repair_config(self, noted: Noted) -> None:
        if noted.topic_config is not None:
            self.log.restore_config(noted.topic_config)
            self._changing(noted, None)

    def _changing(self, noted: Noted, before: Any) -> None:
        noted.topic_config = before
        self._keep(noted)

    def _ends(self) -> dict[int, int]:
        """Up to where a read of the changelog that begins now knows all records."""
        return {at: end for at, (_, end) in self.log.bounds().items()}

    def _noted_places(self, keys: ErasedKeys, noted: Noted) -> list[Place]:
        """The records of the keys by now. As long as there are some, no copy was made anew without them."""
        places = self.log.places(keys)
        known = {(at, offset) for at, offsets in noted.offsets.items() for offset in offsets}
        for place in places:
            if (place.partition, place.offset) not in known:
                noted.offsets.setdefault(place.partition, []).append(place.offset)
        noted.see(place.row_key for place in places)
        noted.partitions = sorted({*noted.partitions, *(place.partition for place in places)})
        if places:
            noted.renewed, noted.local_stores = {}, []
        self._keep(noted)
        return places

    def _reach(self, places: Sequence[Place]) -> None:
        """Takes the tables to the deletions. Those that the cleaner removes first would never reach them."""
        if self.tables.lacks(self.plan.topic, places):
            self.snapshot()
            if self.tables.lacks(self.plan.topic, places):
                msg = f"the tables don't reach the deletions yet: they do after the next batch of {self.plan.app}"
                raise self._pending(msg)

    def _drop(self, keys: ErasedKeys, places: Sequence[Place], ends: Mapping[int, int], noted: Noted) -> None:
        with self.upkeep():
            dropped = self.tables.drop(keys, places, ends)
        if dropped:
            noted.note(f"{dropped} changes left the history at {iso(self.clock.now_ms())}")
            self._keep(noted)

    def _renew(self, keys: ErasedKeys, noted: Noted) -> None:
        try:
            waits = self.copies.renew(keys, noted)
        finally:
            self._keep(noted)
        if waits:
            raise self._pending("; ".join(waits))

    def _awaited(self, places: Sequence[Place]) -> str:
        values = sum(place.is_row for place in places)
        what = f"{values} old values" if values else f"{len(places)} deletions"
        due_ms = self.log.due_ms(places)
        when = f"from {iso(due_ms)} on" if due_ms > self.clock.now_ms() else "soon"
        return f"{what} are in {self.plan.topic}, which its cleaner removes {when}"

    def _pending(self, why: str) -> ErasurePendingError:
        return ErasurePendingError(
            f"erasure {self.plan.erasure_id} of {self.plan.store} is not complete: {why}; `storekeeper erase "
            f"{self.plan.store} --run {self.plan.erasure_id}` goes on"
        )

    def _keep(self, noted: Noted) -> None:
        self.folder.put_noted(self.plan.erasure_id, noted)

    def _certificate(self, keys: ErasedKeys, noted: Noted, searched: Searched) -> dict[str, Any]:
        plan = self.plan
        return {
            "erasure_id": plan.erasure_id,
            "store": plan.store,
            "app": plan.app,
            "planned_at_ms": plan.created_ms,
            "certified_at_ms": self.clock.now_ms(),
            "keys": {"function": "scrypt n=16384 r=8 p=1", "salt": plan.salt, "hashes": list(plan.hashes)},
            "no_record_found_of": list(noted.unknown(keys, plan.hashes)),
            "changelog": {
                "topic": plan.topic,
                "topic_id": plan.topic_id,
                "erased_offsets": {str(at): sorted(offsets) for at, offsets in sorted(noted.offsets.items())},
                "read_without_them": {str(at): list(bounds) for at, bounds in self.log.bounds().items()},
            },
            "tables": self.tables.evidence(),
            "nodes": {name: sorted(partitions) for name, partitions in sorted(noted.renewed.items())},
            "local_stores": sorted(noted.local_stores),
            "done": noted.done,
            "searched": {"topics": searched.topics, "files": searched.files},
            "found_elsewhere": searched.found,
            "yours": list(plan.users_topics),
            "not_searched": list(self.not_searched),
        }


def check_holds(holds: Sequence[str]) -> None:
    """Checks that nothing keeps the keys.

    Raises:
        ErasureRefusedError: something does.
    """
    if holds:
        msg = f"nothing was erased: {'; '.join(holds)}"
        raise ErasureRefusedError(msg)


def new_id(now_ms: int) -> str:
    """The id of an erasure that is planned now."""
    return datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S%f")[:-3] + "Z"


def iso(at_ms: int) -> str:
    """A time as people read it."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="minutes").replace("+00:00", "Z")
