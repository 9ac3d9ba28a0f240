"""Deleting a store's expired rows from its changelog: preview, archive, canary, the rest, proof, undo.

Each step is a call of its own, finds on disk and in the changelog what the steps before have done, and may be repeated:
a clean-up that was killed continues where it stopped.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from enum import Enum, auto
from itertools import islice
from typing import Any, TypeAlias

import orjson
import structlog
from xxhash import xxh64_intdigest

from storekeeper.changelog.log_record import CleanupAction, LogRecord, cleanup_headers
from storekeeper.changelog.scan import Changelog
from storekeeper.cleanup.cleanup_plan import SAMPLE_ROWS, CleanupOptions, CleanupPlan
from storekeeper.cleanup.conditional_write import ConditionalWriter, KafkaTentativeLog
from storekeeper.cleanup.expiry import added, content_of, no_ages
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.clock import Clock
from storekeeper.errors import ChangelogError, InvalidArgumentError, RefusedError
from storekeeper.kafka.connection import Kafka
from storekeeper.masked_keys import masked_key


class RowOutcome(Enum):
    """The newest thing that happened to a row. A row without an entry is unchanged."""

    DELETED = auto()
    RESTORED = auto()
    TOUCHED = auto()  # by its app, before the clean-up came to it or after
    CAME_BACK = auto()  # written by its app after it was deleted


@dataclass(frozen=True, slots=True)
class CleanupOutcome:
    """The outcome of each key, and the keys with forbidden ones.

    `hit` are keys that their app had written before the clean-up deleted them; `foreign` are keys that the clean-up
    deleted although they weren't expired. Both are empty unless the clean-up is broken.
    """

    by_key: dict[bytes, RowOutcome]
    hit: set[bytes]
    foreign: set[bytes]

    def count(self, outcome: RowOutcome) -> int:
        """How many keys have that outcome."""
        return sum(one is outcome for one in self.by_key.values())


def cleanup_outcome(keys: Collection[bytes], records: Iterable[LogRecord], cleanup_id: str) -> CleanupOutcome:
    """Follows `keys` through the committed records since their preview."""
    outcome = CleanupOutcome({}, set(), set())
    for record in records:
        key = record.key
        if key is None:
            continue
        action = record.action_of(cleanup_id)
        if key not in keys:
            if action is not None:
                outcome.foreign.add(key)
            continue
        before = outcome.by_key.get(key)
        if action is CleanupAction.RESTORE:
            outcome.by_key[key] = RowOutcome.RESTORED
        elif action is CleanupAction.DELETE:
            if before in (RowOutcome.TOUCHED, RowOutcome.CAME_BACK):
                outcome.hit.add(key)
            outcome.by_key[key] = RowOutcome.DELETED
        else:
            was_gone = before in (RowOutcome.DELETED, RowOutcome.CAME_BACK)
            outcome.by_key[key] = RowOutcome.CAME_BACK if was_gone else RowOutcome.TOUCHED
    return outcome


_CHUNK_RECORDS = 500
_PASSES = 5
_CANARY_SEED = 7
_SHARES = 1 << 32

Choose: TypeAlias = "Callable[[LogRecord, RowOutcome | None], LogRecord | None]"
"""Maps an archived row and its outcome so far to the record to write; None leaves the row alone."""

log = structlog.get_logger(__name__)


class CleanupRefusedError(RefusedError):
    """The clean-up must not continue: the message says why. Deletions so far can be undone."""


@dataclass(frozen=True, slots=True)
class CleanupReport:
    """The state of a clean-up according to the changelog: numbers of rows.

    Attributes:
        expired: in the archive.
        deleted: gone now.
        refreshed: written by their app before the clean-up reached them, so left alone.
        came_back: written by their app after they were deleted.
        restored: brought back by an undo.
        untouched: still there, unchanged.
        hit: refreshed before, but deleted anyway: must be 0.
        foreign: deleted without being expired: must be 0.
    """

    cleanup_id: str
    store: str
    expired: int
    deleted: int
    refreshed: int
    came_back: int
    restored: int
    untouched: int
    hit: int
    foreign: int

    @property
    def holds(self) -> bool:
        """Whether the clean-up deleted only rows that it may delete."""
        return not self.hit and not self.foreign

    def as_dict(self) -> dict[str, Any]:
        """The report as JSON's own types."""
        return {**asdict(self), "holds": self.holds}


class Cleanup:
    """The clean-ups of one store. One at a time: a second one fences the first.

    Args:
        kafka: the Kafka.
        folder: this store's clean-ups.
        store, topic: the store and the changelog that it has now.
        clock: for ages and the rate limit.
        wait: waits for a number of seconds.
        times: gives the time of a record that a clean-up writes now: `TimesBesideBatches`.
    """

    def __init__(
        self,
        kafka: Kafka,
        folder: CleanupFolder,
        store: str,
        topic: str,
        *,
        clock: Clock,
        wait: Callable[[float], object],
        times: Callable[[], int],
    ) -> None:
        self._kafka = kafka
        self._folder = folder
        self._store = store
        self._topic = topic
        self._clock = clock
        self._wait = wait
        self._times = times

    def preview(self, options: CleanupOptions) -> CleanupPlan:
        """Reads the whole changelog and keeps the plan; changes nothing."""
        now_ms = self._clock.now_ms()
        cutoff_ms = now_ms - options.ttl_ms
        rows = size_bytes = expired_rows = expired_bytes = 0
        ages, sample = no_ages(), list[str]()
        changelog = Changelog(self._kafka, self._topic)
        # What is committed behind an open transaction is read by the steps that follow.
        ends = {partition: changelog.stable_end(partition) for partition in changelog.partitions}
        for partition, end in ends.items():
            records = changelog.scan(partition, changelog.first(partition), end)
            content = content_of(records, cutoff_ms=cutoff_ms, now_ms=now_ms)
            rows, size_bytes = rows + content.rows, size_bytes + content.size_bytes
            expired_rows += len(content.expired)
            expired_bytes += sum(record.size_bytes for record in content.expired)
            ages = added(ages, content.ages)
            shown = content.expired[: SAMPLE_ROWS - len(sample)]
            sample += [
                f"partition {partition}, offset {record.offset}: key {masked_key(record.key or b'')}"
                for record in shown
            ]
        plan = CleanupPlan(
            cleanup_id=datetime.fromtimestamp(now_ms / 1000, UTC).strftime("%Y%m%dT%H%M%S%f")[:-3] + "Z",
            store=self._store,
            topic=self._topic,
            topic_id=changelog.facts.topic_id,
            options=options,
            created_ms=now_ms,
            cutoff_ms=cutoff_ms,
            ends=ends,
            rows=rows,
            size_bytes=size_bytes,
            expired_rows=expired_rows,
            expired_bytes=expired_bytes,
            ages=ages,
            sample=tuple(sample),
            undo_ms=min(options.undo_ms, changelog.facts.delete_retention_ms),
        )
        self._folder.put_plan(plan)
        return plan

    def archive(self, plan: CleanupPlan) -> int:
        """Archives the rows to delete, before any deletion. Returns their number.

        An existing archive is not rewritten: once rows are deleted, compaction removes them from the changelog.
        """
        rows = 0
        changelog, archive = self._changelog(plan), self._folder.archive(plan)
        archive.begin(self._clock.now_ms())
        for partition, end in plan.ends.items():
            if archive.exists(partition):
                rows += len(archive.keys(partition))
                continue
            records = changelog.scan(partition, changelog.first(partition), end)
            expired = content_of(records, cutoff_ms=plan.cutoff_ms, now_ms=plan.created_ms).expired
            archive.put(partition, expired)
            rows += len(expired)
        return rows

    def delete(self, plan: CleanupPlan, *, only_canary: bool = False) -> CleanupReport:
        """Deletes the expired rows that nobody has written since the preview.

        Raises:
            CleanupRefusedError: as `report`; or the store has another changelog by now; or the app writes rows of the
                canary again; or the clean-up was begun so long ago that it can't be undone any more.
        """

        def choose(record: LogRecord, outcome: RowOutcome | None) -> LogRecord | None:
            if outcome is not None or (only_canary and not _in_share(record.key or b"", plan.options.canary_share)):
                return None
            headers = cleanup_headers(record.headers, plan.cleanup_id, CleanupAction.DELETE, self._times())
            return LogRecord(0, self._clock.now_ms(), record.key, None, headers)

        if plan.undo_ms and self._is_too_late(plan):
            msg = f"clean-up {plan.cleanup_id} was begun too long ago to be undone: plan another one"
            raise CleanupRefusedError(msg)
        if not only_canary and plan.options.canary_share:
            self._check_canary(plan)
        self._write_all(plan, choose)
        return self.report(plan)

    def undo(self, plan: CleanupPlan) -> CleanupReport:
        """Restores the deleted rows, with their old values and timestamps, unless somebody has written them since.

        Raises:
            CleanupRefusedError: it is too late: the changelog may no longer hold what happened since. Or the store
                has another changelog by now.
            InvalidArgumentError: it was only previewed, so there is nothing to undo.
        """
        if self._is_too_late(plan):
            until = datetime.fromtimestamp((self._folder.undo_until_ms(plan) or 0) / 1000, UTC)
            raise CleanupRefusedError(
                f"clean-up {plan.cleanup_id} could be undone until {until.isoformat(timespec='minutes')}: take the "
                "rows from its archive by hand, or from an older snapshot"
            )
        self._check_begun(plan)

        def choose(record: LogRecord, outcome: RowOutcome | None) -> LogRecord | None:
            if outcome is not RowOutcome.DELETED:
                return None
            headers = cleanup_headers(record.headers, plan.cleanup_id, CleanupAction.RESTORE, self._times())
            return record._replace(headers=headers)

        self._write_all(plan, choose)
        return self.report(plan)

    def report(self, plan: CleanupPlan) -> CleanupReport:
        """The report on the clean-up from the changelog, from the preview to now.

        Raises:
            CleanupRefusedError: it deleted rows that it must not delete.
            InvalidArgumentError: it was only previewed, so there is nothing to report.
        """
        self._check_begun(plan)
        expired, outcomes = 0, list[CleanupOutcome]()
        changelog = self._changelog(plan)
        for partition in plan.ends:
            keys = self._folder.archive(plan).keys(partition)
            expired += len(keys)
            outcomes.append(cleanup_outcome(keys, self._since(changelog, plan, partition), plan.cleanup_id))
        counts = {outcome: sum(partitions.count(outcome) for partitions in outcomes) for outcome in RowOutcome}
        report = CleanupReport(
            cleanup_id=plan.cleanup_id,
            store=plan.store,
            expired=expired,
            deleted=counts[RowOutcome.DELETED],
            refreshed=counts[RowOutcome.TOUCHED],
            came_back=counts[RowOutcome.CAME_BACK],
            restored=counts[RowOutcome.RESTORED],
            untouched=expired - sum(counts.values()),
            hit=sum(len(partitions.hit) for partitions in outcomes),
            foreign=sum(len(partitions.foreign) for partitions in outcomes),
        )
        self._folder.put_report(plan.cleanup_id, orjson.dumps(report.as_dict()))
        log.info("cleanup", **report.as_dict())
        if not report.holds:
            raise CleanupRefusedError(
                f"clean-up {plan.cleanup_id} deleted {report.hit} rows that were refreshed and {report.foreign} that "
                "were not expired: undo it, and report this"
            )
        return report

    def _write_all(self, plan: CleanupPlan, choose: Choose) -> None:
        if plan.topic != self._topic:
            raise CleanupRefusedError(
                f"store {self._store} is now in {self._topic}, and clean-up {plan.cleanup_id} is of "
                f"{plan.topic}: go back to that generation first (DAG `rollback_state`), or plan another clean-up"
            )
        # A row may have been left alone because of a record whose transaction was aborted later: it is tried again.
        for _ in range(_PASSES):
            if not self._write(plan, choose):
                return

    def _write(self, plan: CleanupPlan, choose: Choose) -> int:
        """One pass over all partitions; returns how many rows were left alone."""
        left_alone = 0
        pace = Pace(plan.options.tombstones_per_s, self._clock, self._wait)
        chunk_records = max(1, min(_CHUNK_RECORDS, int(plan.options.tombstones_per_s)))
        # Before the changelog is read: from here on no earlier run can commit anything.
        tentative = KafkaTentativeLog(self._kafka, plan.topic)
        try:
            changelog = self._changelog(plan)
            for partition in plan.ends:
                end = changelog.stable_end(partition)
                archive = self._folder.archive(plan)
                seen = cleanup_outcome(
                    archive.keys(partition),
                    changelog.scan(partition, plan.ends[partition], end),
                    plan.cleanup_id,
                ).by_key
                writer = ConditionalWriter(
                    tentative.at(partition, end), lambda record: record.action_of(plan.cleanup_id) is not None
                )
                chosen = _chosen(archive.rows(partition), seen, choose)
                while chunk := list(islice(chosen, chunk_records)):
                    pace.take(len(chunk))
                    left_alone += len(writer.write(chunk).touched)
            return left_alone
        finally:
            tentative.close()

    def _is_too_late(self, plan: CleanupPlan) -> bool:
        """Whether the changelog may no longer show what the app did since the archive was begun."""
        until_ms = self._folder.undo_until_ms(plan)
        return until_ms is not None and self._clock.now_ms() >= until_ms

    def _check_canary(self, plan: CleanupPlan) -> None:
        outcomes = self._canary_outcomes(plan)
        # Compaction may have removed the tombstone of a row that came back. So a row counts that the app has written
        # since the preview, whether before its deletion or after it.
        written = outcomes[RowOutcome.CAME_BACK] + outcomes[RowOutcome.TOUCHED]
        canary = written + outcomes[RowOutcome.DELETED]
        if written > plan.options.max_came_back_share * canary:
            raise CleanupRefusedError(
                f"{written} of the {canary} rows of the canary were written by the app since the preview: they are "
                f"still in use, so the TTL of {plan.options.ttl_ms / 86_400_000:g} days is too short. "
                f"Bring the others back with undo, then use a longer one"
            )

    def _canary_outcomes(self, plan: CleanupPlan) -> Counter[RowOutcome]:
        """How many rows of the canary have each outcome."""
        outcomes = Counter[RowOutcome]()
        changelog, share = self._changelog(plan), plan.options.canary_share
        for partition in plan.ends:
            keys = {key for key in self._folder.archive(plan).keys(partition) if _in_share(key, share)}
            outcomes.update(
                cleanup_outcome(keys, self._since(changelog, plan, partition), plan.cleanup_id).by_key.values()
            )
        return outcomes

    def _changelog(self, plan: CleanupPlan) -> Changelog:
        changelog = Changelog(self._kafka, plan.topic)
        if changelog.facts.topic_id != plan.topic_id:
            msg = f"{plan.topic} was recreated after clean-up {plan.cleanup_id} was planned: plan another one"
            raise ChangelogError(msg)
        return changelog

    def _check_begun(self, plan: CleanupPlan) -> None:
        archive = self._folder.archive(plan)
        if plan.ends and not any(map(archive.exists, plan.ends)):
            raise InvalidArgumentError(
                f"clean-up {plan.cleanup_id} of {plan.store} has no archive: it was previewed and never run, or its "
                f"archive was forgotten; `storekeeper cleanup run {plan.store} {plan.cleanup_id}` runs a preview"
            )

    def _since(self, changelog: Changelog, plan: CleanupPlan, partition: int) -> Iterator[LogRecord]:
        return changelog.scan(partition, plan.ends[partition], changelog.committed(partition)[1])


def _chosen(rows: Iterator[LogRecord], outcomes: dict[bytes, RowOutcome], choose: Choose) -> Iterator[LogRecord]:
    for row in rows:
        record = choose(row, outcomes.get(row.key or b""))
        if record is not None:
            yield record


def _in_share(key: bytes, share: float) -> bool:
    return (xxh64_intdigest(key, seed=_CANARY_SEED) >> 32) < share * _SHARES


class Pace:
    """At most `per_s` units a second, above 0, on average, in pieces. Not thread-safe."""

    def __init__(self, per_s: float, clock: Clock, wait: Callable[[float], object]) -> None:
        self._per_s = per_s
        self._clock = clock
        self._wait = wait
        self._free_at_s = clock.monotonic_s()

    def take(self, units: int) -> None:
        """Waits until the time for the earlier pieces has passed, then counts `units`."""
        now_s = self._clock.monotonic_s()
        if self._free_at_s > now_s:
            self._wait(self._free_at_s - now_s)
        self._free_at_s = max(self._free_at_s, now_s) + units / self._per_s
