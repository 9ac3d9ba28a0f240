"""The loop that keeps a node's replicas following: one consumer for all of them, one thread.

A problem of one replica doesn't affect the others: a damaged store is set aside and restored, a full disk or a log that
can't be followed is tried again later, an unreachable broker is waited for.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import structlog

from storekeeper.changelog.batch import PartitionBatch
from storekeeper.changelog.errors import BrokerUnavailableError, ChangelogMovedError, TombstonesExpiredError
from storekeeper.changelog.log_bounds import TopicAndPartition
from storekeeper.changelog.reader import ChangelogReader, TopicFacts
from storekeeper.changelog.restore import LogState
from storekeeper.clock import Clock
from storekeeper.errors import DiskFullError, StateError, StoreCorruptedError
from storekeeper.node.replicas.replica import Replica
from storekeeper.protocol.replica_states import ReplicaState

log = structlog.get_logger(__name__)

_READ_TIMEOUT_S = 0.2
_FIRST_RETRY_S = 1.0
_LONGEST_RETRY_S = 15.0
_SETTLED = frozenset({ReplicaState.RUNNING, ReplicaState.SUSPENDED, ReplicaState.FAILED})


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A replica that isn't read now, and when to try it."""

    replica: Replica
    at_s: float


class ColdRestore(Protocol):
    """Restores replicas that are far behind, elsewhere."""

    def takes(self, replica: Replica, remaining: int) -> bool:
        """Whether it restores a replica that lacks `remaining` records."""
        ...

    def restore(self, replicas: list[Replica], give_back: Callable[[Replica], None]) -> None:
        """Begins to restore replicas, and returns at once. Each is given back when it is done with."""
        ...


class Follower:
    """Applies changelogs to replicas until stopped. `run` belongs to one thread; the rest may be called from any."""

    def __init__(
        self,
        replicas: Iterable[Replica],
        reader: Callable[[], ChangelogReader],
        clock: Clock,
        *,
        cold_restore: ColdRestore | None = None,
        check_every_s: float = 30.0,
    ) -> None:
        self._replicas = list(replicas)
        self._make_reader = reader
        self._clock = clock
        self._cold_restore = cold_restore
        self._check_every_s = check_every_s
        self._stop = threading.Event()
        now_s = clock.monotonic_s()
        self._waiting = {id(replica): _Waiting(replica, now_s) for replica in self._replicas}
        self._following: dict[TopicAndPartition, Replica] = {}
        self._delays_s: dict[int, float] = {}
        self._given_back: queue.SimpleQueue[Replica] = queue.SimpleQueue()
        self._changes: queue.SimpleQueue[tuple[Replica, bool]] = queue.SimpleQueue()
        self._woken = threading.Event()

    def admit(self, replica: Replica) -> None:
        """Follows one more replica."""
        self._changes.put((replica, True))
        self._woken.set()

    def release(self, replica: Replica) -> None:
        """Stops following a replica and closes it."""
        self._changes.put((replica, False))
        self._woken.set()

    def stop(self) -> None:
        """Lets `run` end after the current batch."""
        self._stop.set()
        self._woken.set()

    def run(self) -> None:
        """Follows until `stop`, then closes the replicas."""
        try:
            while not self._stop.is_set():
                try:
                    self._loop(lambda: False)
                except Exception:
                    # If this thread ended, the replicas would stay closed until a person notices.
                    log.exception("follower_interrupted")
                    self._stop.wait(_FIRST_RETRY_S)
        finally:
            self._close_replicas()

    def run_until_settled(self) -> None:
        """Follows until each replica has reached the end of its log, or can't for now; then closes them."""
        try:
            self._loop(lambda: all(replica.state in _SETTLED for replica in self._replicas))
        finally:
            self._close_replicas()

    def _loop(self, done: Callable[[], bool]) -> None:
        reader = self._make_reader()
        now_s = self._clock.monotonic_s()
        # Replicas followed before an interruption are resumed; those restored elsewhere are given back later.
        self._waiting |= {id(replica): _Waiting(replica, now_s) for replica in self._following.values()}
        self._following.clear()
        next_check_s = now_s + self._check_every_s
        try:
            while not self._stop.is_set() and not done():
                self._take_back()
                self._take_changes(reader)
                self._admit(reader)
                self._read(reader)
                self._drop_damaged(reader)
                self._check(reader, [replica for replica in self._following.values() if replica.log_changed])
                if self._clock.monotonic_s() >= next_check_s:
                    self._check(reader, list(self._following.values()))
                    next_check_s = self._clock.monotonic_s() + self._check_every_s
        finally:
            reader.close()

    def _close_replicas(self) -> None:
        for replica in self._replicas:
            replica.close()

    def _admit(self, reader: ChangelogReader) -> None:
        """Opens the replicas that are due and reads them, or hands them to the cold restore."""
        now_s = self._clock.monotonic_s()
        due = [entry.replica for entry in self._waiting.values() if entry.at_s <= now_s or entry.replica.log_changed]
        facts: dict[str, TopicFacts] = {}
        cold: list[Replica] = []
        for replica in due:
            if self._stop.is_set():
                break
            try:
                if not self._begin(reader, replica, facts):
                    cold.append(replica)
            except BrokerUnavailableError as error:
                self._handle(reader, replica, error)
                break
            except Exception as error:
                self._handle(reader, replica, error)
            else:
                del self._waiting[id(replica)]
        if cold and self._cold_restore is not None:
            for replica in cold:
                replica.restore_in_worker()
            self._cold_restore.restore(cold, self._give_back)

    def _begin(self, reader: ChangelogReader, replica: Replica, facts: dict[str, TopicFacts]) -> bool:
        """Opens one replica and reads it; False if it is so far behind that another process should restore it."""
        changelog = _log_state(reader, replica, facts)
        replica.check_known(changelog.topic_id)
        offset = _resumed(replica, changelog) if replica.is_open else None
        if offset is None:
            plan = replica.open(changelog)
            if self._cold_restore is not None and self._cold_restore.takes(replica, plan.remaining):
                return False
            offset = plan.offset
        where = (replica.topic, replica.replica_id.partition)
        self._following[where] = replica
        reader.add(*where, offset)
        return True

    def _give_back(self, replica: Replica) -> None:
        self._given_back.put(replica)
        self._woken.set()

    def _take_back(self) -> None:
        while not self._given_back.empty():
            replica = self._given_back.get()
            if replica in self._replicas:
                self._waiting[id(replica)] = _Waiting(replica, self._clock.monotonic_s())

    def _take_changes(self, reader: ChangelogReader) -> None:
        """Adds and removes replicas as queued, in that order."""
        while not self._changes.empty():
            replica, came = self._changes.get()
            if came:
                self._replicas.append(replica)
                self._waiting[id(replica)] = _Waiting(replica, self._clock.monotonic_s())
            else:
                self._let_go(reader, replica)

    def _let_go(self, reader: ChangelogReader, replica: Replica) -> None:
        where = (replica.topic, replica.replica_id.partition)
        if self._following.get(where) is replica:
            del self._following[where]
            reader.remove(*where)
        self._waiting.pop(id(replica), None)
        self._delays_s.pop(id(replica), None)
        if replica in self._replicas:
            self._replicas.remove(replica)
        replica.close()

    def _read(self, reader: ChangelogReader) -> None:
        if not self._following:
            # The event is set only after queuing, and the loop reads the queues next, so clearing it loses nothing.
            self._woken.wait(_READ_TIMEOUT_S)
            self._woken.clear()
            return
        for batch in reader.read(_READ_TIMEOUT_S):
            self._apply(reader, batch)

    def _apply(self, reader: ChangelogReader, batch: PartitionBatch) -> None:
        replica = self._following.get((batch.topic, batch.partition))
        if replica is None:
            return
        try:
            replica.apply(batch)
            if batch.moved is not None:
                raise ChangelogMovedError(batch.topic, batch.partition, batch.moved)
        except Exception as error:
            self._handle(reader, replica, error)
            return
        end = reader.end_offset(batch.topic, batch.partition)
        if end is not None:
            replica.saw_end(end)
        self._delays_s.pop(id(replica), None)

    def _drop_damaged(self, reader: ChangelogReader) -> None:
        for replica in [replica for replica in self._following.values() if replica.damaged]:
            self._handle(reader, replica, StoreCorruptedError(f"a read met damage in {replica.replica_id}"))

    def _check(self, reader: ChangelogReader, replicas: Iterable[Replica]) -> None:
        """Checks each replica against the current state of its log."""
        facts: dict[str, TopicFacts] = {}
        for replica in replicas:
            try:
                replica.check(_log_state(reader, replica, facts))
            except BrokerUnavailableError as error:
                log.warning("changelog_check_skipped", error=str(error))
                return
            except Exception as error:
                self._handle(reader, replica, error)

    def _handle(self, reader: ChangelogReader, replica: Replica, error: Exception) -> None:
        """Takes a replica out of the loop and decides when and how it comes back."""
        where = (replica.topic, replica.replica_id.partition)
        delay_s = self._delays_s.get(id(replica), 0.0)
        waits_already = False
        if isinstance(error, TombstonesExpiredError):
            delay_s = min(delay_s, _FIRST_RETRY_S)
            waits_already = replica.state is ReplicaState.OUTDATED
        self._delays_s[id(replica)] = min(_LONGEST_RETRY_S, max(_FIRST_RETRY_S, delay_s * 2))
        self._waiting[id(replica)] = _Waiting(replica, self._clock.monotonic_s() + delay_s)
        if self._following.pop(where, None) is not None:
            reader.remove(*where)
        if isinstance(error, StoreCorruptedError):
            replica.set_aside()
        elif isinstance(error, DiskFullError):
            replica.suspend(error)
        elif isinstance(error, TombstonesExpiredError):
            replica.outdate(error)
        elif not isinstance(error, ChangelogMovedError | BrokerUnavailableError):
            replica.fail(error)
        known = isinstance(error, StateError)
        report = log.warning if known else log.exception
        if waits_already:
            report = log.debug
        report(
            "replica_tried_again",
            replica=str(replica.replica_id),
            in_s=delay_s,
            error=str(error) if known else type(error).__name__,
        )


def _log_state(reader: ChangelogReader, replica: Replica, facts: dict[str, TopicFacts]) -> LogState:
    if replica.topic not in facts:
        facts[replica.topic] = reader.facts(replica.topic)
    return reader.log_state(facts[replica.topic], replica.replica_id.partition)


def _resumed(replica: Replica, changelog: LogState) -> int | None:
    """The offset to resume from with rows that are still open, or None if they don't fit the log any more."""
    try:
        replica.check(changelog)
    except ChangelogMovedError:
        return None
    return replica.resume()
