"""One store partition that follows its changelog: opened by plan, moved by batches, read by queries.

Rows and the checkpoint that stands for them are written in one atomic step, so a crash at any moment leaves a store
that resumes where it was. One thread opens, applies and closes; any thread reads: see `ReplicaRows`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import structlog

from storekeeper.changelog.batch import PartitionBatch, fold
from storekeeper.changelog.checkpoint import METADATA_KEY, Checkpoint
from storekeeper.changelog.errors import ChangelogMovedError, TombstonesExpiredError
from storekeeper.changelog.listener import RestoreEvent, RestoreListener, RestoreProgress
from storekeeper.changelog.log_ends import LogEnd
from storekeeper.changelog.restore import LogState, RestoreAction, RestorePlan, RestoreReason, plan_restore
from storekeeper.changelog.skipped import SkippedRecord, SkippedTotals
from storekeeper.clock import Clock
from storekeeper.errors import ChangelogError, StoreClosedError, StoreCorruptedError, StoreUnavailableError
from storekeeper.metrics.latency import LatencyRecorder
from storekeeper.node.replicas.ranked_index import RankedIndex
from storekeeper.node.replicas.replica_rows import ReadRow, ReplicaRows, RowCache
from storekeeper.node.replicas.replica_storage import ReplicaStorage
from storekeeper.protocol.replica_freshness import EndRequest, FreshnessTracker, SourceProgress
from storekeeper.protocol.replica_states import ReplicaId, ReplicaRole, ReplicaState, ReplicaStatus
from storekeeper.stores.bytes_store import BytesStore, is_empty
from storekeeper.stores.row import HEADER_BYTES, decode_row

log = structlog.get_logger(__name__)


class Replica(ReplicaRows):
    """One store partition that follows its changelog.

    Attributes:
        known_topic_id: the id of the topic that the rows are of. A topic with another id is not followed, and the rows
            are kept: they may be the last copy. None to begin again with whatever topic has the name.
        log_changed: whether the changelog was deleted or recreated since the rows were last checked.
        is_unwanted: whether its files go for good when it is set aside.
        restores: how long each restore took, from the opening until it had caught up.
    """

    def __init__(
        self,
        replica_id: ReplicaId,
        topic: str,
        *,
        storage: ReplicaStorage,
        clock: Clock,
        listener: RestoreListener,
        role: ReplicaRole = ReplicaRole.ACTIVE,
        source_progress_of: Callable[[str], SourceProgress] = lambda _: SourceProgress(),
        index: RankedIndex | None = None,
        cache: RowCache | None = None,
        read_row: ReadRow = decode_row,
        restores: LatencyRecorder | None = None,
        may_rebuild: Callable[[], bool] = lambda: True,
    ) -> None:
        tracker = FreshnessTracker()
        super().__init__(replica_id, topic, role=role, tracker=tracker, index=index, cache=cache, read_row=read_row)
        self.known_topic_id: str | None = None
        self._lost_rows_to = 0
        self.restores = restores or LatencyRecorder()
        self._storage = storage
        self._clock = clock
        self._listener = listener
        self._may_rebuild = may_rebuild
        self._source_progress_of = source_progress_of
        self._whole_at_s: float | None = None
        self._plan: RestorePlan | None = None
        self._delete_retention_ms = 0
        self._restore_began_s = 0.0
        self._behind_since_s: float | None = None
        self._restored = 0
        self._end_topic_id: str | None = None
        self.log_changed = False
        self.is_unwanted = False

    def status(self) -> ReplicaStatus:
        """One look at everything. Safe from any thread."""
        return ReplicaStatus(
            replica=self.replica_id,
            topic=self.topic,
            role=self.role,
            state=self.state,
            serving=self.serving,
            offset=self.offset,
            end_offset=self._end_offset,
            restored_records=self._restored,
            skipped=SkippedTotals() if self._checkpoint is None else self._checkpoint.skipped,
            unranked_rows=None if self.index is None else self.index.left_out_rows,
            trouble=None if self.index is None else self.index.trouble,
            error=self.lost or self._error,
        )

    @property
    def rows_to(self) -> int | None:
        """The offset that the rows reach, if the log has lost records of them; None if it has all of them."""
        return None if self._records_lost is None else self._lost_rows_to

    def goes_by(self, topic_id: str, lost: str | None) -> None:
        """Notes the topic that the rows are of, and why the broker doesn't have it any more; None if it has."""
        self.known_topic_id = topic_id
        self._note_loss(lost, self._records_lost)

    def compare(self, rows_to: int) -> None:
        """Compares the rows with those of other nodes, whose log has lost records of them.

        A replica on a new disk takes what is left of the log for all there is. It answers nothing while another node
        has more.

        Args:
            rows_to: the offset that the rows of other nodes reach; 0 if the log has not lost any of them.
        """
        if rows_to <= max(self.offset or 0, self.rows_to or 0):
            if self._records_missing is not None:
                self._records_missing = None
                self.serving = self.state is ReplicaState.RUNNING
        elif self._records_missing is None:
            before = self.lost
            self._records_missing = (
                f"changelog {self.topic}-{self.replica_id.partition}: Kafka has lost records, and another node has "
                f"rows of them up to offset {rows_to}: see docs/how-to/back-up-and-recover.md"
            )
            self.serving = False
            self._forget_answers(before)

    def open(self, changelog: LogState) -> RestorePlan:
        """Opens the store, clears rows that don't fit the log, and says from which offset to read.

        Raises:
            ChangelogError: the log has lost records that the rows are of; they stay, closed.
            TombstonesExpiredError: the rows must be rebuilt, but may not be rebuilt now; they are open as they were.
            StoreCorruptedError: the store is damaged; call `set_aside`, then open again.
            StorageError: the disk failed, or another process has the store open.
        """
        self._release()
        store = self._storage.open(self.replica_id)
        try:
            stored = store.metadata(METADATA_KEY)
            checkpoint = None if stored is None else Checkpoint.decode(stored)
            behind_ms = 0 if checkpoint is None else self._behind_ms(checkpoint)
            plan = plan_restore(checkpoint, empty=is_empty(store), log=changelog, behind_ms=behind_ms)
            self._check_whole(plan, checkpoint)
            waits = plan.reason is RestoreReason.TOMBSTONES_EXPIRED and not self._may_rebuild()
            if plan.action is RestoreAction.WIPE and not waits:
                log.warning("replica_wiped", replica=str(self.replica_id), reason=plan.reason.value)
                store.close()
                self._storage.wipe(self.replica_id)
                store = self._storage.open(self.replica_id)
            if checkpoint is None or (plan.action is not RestoreAction.RESUME and not waits):
                behind_ms, now_ms = 0, self._clock.now_ms()
                checkpoint = Checkpoint(changelog.topic, changelog.topic_id, changelog.partition, plan.offset, now_ms)
                store.write((), {METADATA_KEY: checkpoint.encode()})
            self._rebuild_index(store)
        except BaseException:
            # If the store stayed open, following would go on with an incomplete index.
            store.close()
            raise
        self._whole_at_s = self._clock.monotonic_s() - behind_ms / 1000
        self._begin(store, checkpoint, plan, changelog)
        if waits:
            raise self._tombstones_expired()
        return plan

    def apply(self, batch: PartitionBatch) -> None:
        """Writes a batch and its next offset in one step. Replaying a batch changes nothing.

        Records that aren't valid changelog records are counted and skipped.

        Raises:
            DiskFullError: nothing was written; the same batch may be applied again later.
            StoreCorruptedError: the store is damaged; call `set_aside`, then open again.
            TombstonesExpiredError: the rows are too far behind to be sure of deletions; open again.
        """
        store, checkpoint, plan = self._store, self._checkpoint, self._plan
        if store is None or checkpoint is None or plan is None:
            raise StoreClosedError(f"replica {self.replica_id} is not open")
        offset = max(checkpoint.offset, batch.next_offset)
        if offset > checkpoint.offset and self._behind_ms(checkpoint) >= self._delete_retention_ms:
            raise self._tombstones_expired()
        folded = fold(batch.messages)
        whole = batch.end_reached
        if whole:
            self._whole_at_s = self._clock.monotonic_s()
        moved = checkpoint.moved(offset, self._whole_at_ms(checkpoint), folded.source, folded.skipped)
        if folded.entries or moved.offset != checkpoint.offset:
            self.shown_offset = max(self.shown_offset, moved.offset)
            store.write(folded.entries, {METADATA_KEY: moved.encode()})
            self.writes += 1
            if self.cache is not None:
                self.cache.drop(key for key, _ in folded.entries)
            if self.index is not None:
                self.index.apply((key, None if row is None else row[HEADER_BYTES:]) for key, row in folded.entries)
        self._checkpoint = moved
        self.tracker.moved(moved.offset, moved.source, self._clock.monotonic_s())
        self._report_skipped(folded.skipped)
        self._end_offset = max(moved.offset, moved.offset if whole else self._end_offset or 0)
        if self.state is ReplicaState.RESTORING:
            self._restore_on(plan, len(batch.messages))

    def saw_end(self, end_offset: int) -> None:
        """Notes the end offset, for the lag."""
        self._end_offset = max(end_offset, self.offset or 0)
        self.tracker.touch()

    def request(self, at_s: float) -> EndRequest:
        """Call it before asking the broker for the end offset."""
        checkpoint = self._checkpoint
        return self.tracker.request(at_s, None if checkpoint is None else checkpoint.topic_id)

    def heard_end(self, request: EndRequest, end: LogEnd) -> bool:
        """Notes the broker's answer; True if it shows for the first time that the topic is another one, or gone."""
        checkpoint = self._checkpoint
        if checkpoint is None or checkpoint.topic_id != request.topic_id:
            return False
        before, self._end_topic_id = self._end_topic_id, end.topic_id
        if end.topic_id == checkpoint.topic_id:
            if end.end is not None:
                self.tracker.saw_end(request, end.end)
            return False
        self._end_offset = None
        self.tracker.lost_log()
        self.log_changed |= end.topic_id != before
        return end.topic_id != before

    def check(self, changelog: LogState) -> None:
        """Compares the rows with the current state of the log; if nothing is missing, writes that to the checkpoint.

        Raises:
            ChangelogError: another topic has the name, or the log has lost records; the rows stay as they are.
            ChangelogMovedError: they don't fit the log any more; open again.
            TombstonesExpiredError: they must be rebuilt, but may not be rebuilt now.
            StoreCorruptedError: the store's files were removed; call `set_aside`, then open again.
            DiskFullError: the checkpoint could not be written.
        """
        store, checkpoint = self._store, self._checkpoint
        if store is None or checkpoint is None:
            return
        self.log_changed = False
        self.check_known(changelog.topic_id)
        plan = plan_restore(checkpoint, empty=False, log=changelog, behind_ms=self._behind_ms(checkpoint))
        self._check_whole(plan, checkpoint)
        if plan.reason is RestoreReason.TOMBSTONES_EXPIRED and not self._may_rebuild():
            raise self._tombstones_expired()
        if plan.reason is RestoreReason.TOPIC_RECREATED:
            self._release()
            self.state = ReplicaState.CREATED
        if plan.action is not RestoreAction.RESUME:
            raise ChangelogMovedError(self.topic, self.replica_id.partition, plan.reason.value)
        if self._storage.has_lost(self.replica_id):
            raise StoreCorruptedError(f"the files of {self.replica_id} were removed")
        self._end_offset = changelog.end_offset
        if plan.remaining == 0:
            self._whole_at_s = self._clock.monotonic_s()
            self._checkpoint = checkpoint.moved(checkpoint.offset, self._whole_at_ms(checkpoint))
            store.write((), {METADATA_KEY: self._checkpoint.encode()})
            store.flush()

    def check_known(self, topic_id: str) -> None:
        """Checks that the topic that the broker has now is the one that the rows are of.

        Raises:
            ChangelogError: it isn't.
        """
        if self.known_topic_id not in {None, topic_id}:
            raise ChangelogError(self.lost or f"changelog {self.topic} was deleted and recreated")

    def _check_whole(self, plan: RestorePlan, checkpoint: Checkpoint | None) -> None:
        """Checks that the log has all records that the rows are of: an older copy of Kafka's data has not."""
        if checkpoint is None or plan.reason is not RestoreReason.AHEAD_OF_LOG or self.known_topic_id is None:
            self._note_loss(self._topic_lost, None)
            return
        why = (
            f"changelog {self.topic}-{self.replica_id.partition} ends at offset {plan.end_offset}, and the rows of "
            f"this node at {checkpoint.offset}: Kafka has lost records. This node keeps its rows: see "
            "docs/how-to/back-up-and-recover.md"
        )
        self._lost_rows_to = checkpoint.offset
        self._note_loss(self._topic_lost, why)
        raise ChangelogError(why)

    def _note_loss(self, of_topic: str | None, of_records: str | None) -> None:
        before = self.lost
        self._topic_lost, self._records_lost = of_topic, of_records
        self._forget_answers(before)

    def _forget_answers(self, before: str | None) -> None:
        if before is None and self.lost is not None and self.cache is not None:
            self.writes += 1
            self.cache.clear()  # it also keeps that there is no row of a key

    def restore_in_worker(self) -> None:
        """Lets go of the store so that another process can restore it. Reads are refused until the next `open`."""
        self._release()
        self.state = ReplicaState.RESTORING
        self._whole_at_s = None

    def restored_in_worker(self, offset: int, records: int) -> None:
        """Takes note of that process's progress."""
        if self._checkpoint is not None:
            self._checkpoint = self._checkpoint.moved(offset)
        self._restored = records

    def suspend(self, error: Exception) -> None:
        """Stops following while the disk is full; rows stay readable if they were."""
        self._pause(ReplicaState.SUSPENDED, error)

    def resume(self) -> int:
        """Follows again after `suspend` or `fail`; returns the offset to read from."""
        if self._checkpoint is None:
            raise StoreClosedError(f"replica {self.replica_id} is not open")
        self.state = ReplicaState.RUNNING if self.serving else ReplicaState.RESTORING
        self._error = None
        return self._checkpoint.offset

    def fail(self, error: Exception) -> None:
        """Stops following until somebody looks, or a retry succeeds; rows stay readable if they were."""
        self._pause(ReplicaState.FAILED, error)

    def outdate(self, error: Exception) -> None:
        """Stops following until the rows may be rebuilt; they stay readable if they were."""
        self._pause(ReplicaState.OUTDATED, error)

    def set_aside(self) -> None:
        """Moves the damaged store out of the way: the next `open` starts an empty one."""
        self._release()
        if self.is_unwanted:
            self._storage.erase(self.replica_id)
        else:
            self._storage.set_aside(self.replica_id)
        self.state = ReplicaState.CREATED

    def doubt(self, *, for_good: bool = False) -> None:
        """Lets the follower set the store aside and restore it, although it isn't damaged. Safe from any thread. With
        `for_good` nothing is kept, not even rows that were set aside before.

        Raises:
            StoreUnavailableError: the rows may be the last copy.
        """
        if self.lost is not None:
            msg = f"the rows of {self.replica_id} stay, as they may be the last copy: {self.lost}"
            raise StoreUnavailableError(msg)
        log.warning("replica_doubted", replica=str(self.replica_id), for_good=for_good)
        self.is_unwanted = for_good
        self.damaged = True

    @property
    def set_aside_ms(self) -> int | None:
        """When damaged rows of it were last set aside, epoch milliseconds; None if none are there."""
        return self._storage.set_aside_ms(self.replica_id)

    def close(self) -> None:
        """Flushes and closes the store. Safe to call twice."""
        if self.state is ReplicaState.RESTORING and self._plan is not None:
            self._listener(RestoreEvent.SUSPENDED, self._progress(self._plan))
        self._release()
        self.state = ReplicaState.CLOSED

    def _begin(self, store: BytesStore, checkpoint: Checkpoint, plan: RestorePlan, changelog: LogState) -> None:
        self._store, self._checkpoint, self._plan = store, checkpoint, plan
        self._delete_retention_ms = changelog.delete_retention_ms
        self._end_offset = changelog.end_offset
        self.shown_offset = checkpoint.offset
        self._restored, self._error, self.damaged, self.is_unwanted = 0, None, False, False
        self._end_topic_id, self.log_changed = checkpoint.topic_id, False
        self._restore_began_s = self._clock.monotonic_s()
        source_progress = self._source_progress_of(checkpoint.topic_id)
        self.tracker.opened(checkpoint.offset, checkpoint.source, self._restore_began_s, source_progress)
        # Another process may have restored most of it before: that time counts too.
        if self._behind_since_s is None:
            self._behind_since_s = self._restore_began_s
        self.state = ReplicaState.RESTORING
        self._listener(RestoreEvent.STARTED, self._progress(plan))
        if plan.completed_at(plan.offset):
            self._whole_at_s = self._clock.monotonic_s()
            self._checkpoint = checkpoint.moved(checkpoint.offset, self._whole_at_ms(checkpoint))
            self._restore_on(plan, 0)

    def _restore_on(self, plan: RestorePlan, records: int) -> None:
        self._restored += records
        progress = self._progress(plan)
        if plan.completed_at(progress.offset):
            self.state = ReplicaState.RUNNING
            self.serving = self._records_missing is None
            self._note_restore()
            self._listener(RestoreEvent.ENDED, progress)
        else:
            self._listener(RestoreEvent.PROGRESS, progress)

    def _note_restore(self) -> None:
        if self._behind_since_s is not None:
            self.restores.record(int((self._clock.monotonic_s() - self._behind_since_s) * 1e9))
            self._behind_since_s = None

    def _report_skipped(self, skipped: Sequence[SkippedRecord]) -> None:
        """Logs one line for each reason, as there may be very many records."""
        by_reason: dict[str, list[int]] = {}
        for record in skipped:
            by_reason.setdefault(record.reason.value, []).append(record.offset)
        for reason, offsets in by_reason.items():
            log.warning(
                "changelog_records_skipped",
                topic=self.topic,
                partition=self.replica_id.partition,
                reason=reason,
                records=len(offsets),
                first_offset=offsets[0],
                last_offset=offsets[-1],
            )

    def _behind_ms(self, checkpoint: Checkpoint) -> int:
        """How long ago the rows were last known to equal the whole log.

        While the process runs, this is monotonic time; a jump of the wall clock counts only across a restart.
        """
        if self._whole_at_s is None:
            return self._clock.now_ms() - checkpoint.whole_at_ms
        fresh_at_s = self.tracker.fresh_at_s
        whole_at_s = self._whole_at_s if fresh_at_s is None else max(self._whole_at_s, fresh_at_s)
        return int((self._clock.monotonic_s() - whole_at_s) * 1000)

    def _whole_at_ms(self, checkpoint: Checkpoint) -> int:
        return self._clock.now_ms() - self._behind_ms(checkpoint)

    def _tombstones_expired(self) -> TombstonesExpiredError:
        return TombstonesExpiredError(
            f"{self.replica_id} has been behind for longer than {self._delete_retention_ms} ms, for which "
            f"{self.topic} keeps deletions: it is rebuilt once no other node rebuilds its replica; if a rebuild takes "
            "longer than that, raise the topic's delete.retention.ms"
        )

    def _progress(self, plan: RestorePlan) -> RestoreProgress:
        return RestoreProgress(
            store=self.replica_id.store,
            partition=self.replica_id.partition,
            start_offset=plan.offset,
            offset=plan.offset if self.offset is None else self.offset,
            end_offset=plan.end_offset,
            records=self._restored,
            elapsed_s=self._clock.monotonic_s() - self._restore_began_s,
        )

    def _pause(self, state: ReplicaState, error: Exception) -> None:
        if self.state is ReplicaState.RESTORING and self._plan is not None:
            self._listener(RestoreEvent.SUSPENDED, self._progress(self._plan))
        self.state = state
        self._error = str(error)
        self.log_changed = False
