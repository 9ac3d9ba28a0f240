"""The thread that asks where logs end: it outlives what nobody foresaw, and does not let a read wait for it."""

from __future__ import annotations

import queue
import threading

from storekeeper.changelog.log_ends import LogEnds
from storekeeper.clock import SystemClock
from storekeeper.kafka.connection import Kafka
from storekeeper.node.replicas.replica import Replica
from storekeeper.node.replicas.replica_set import EndOffsetPoller


def test_an_error_at_its_start_does_not_end_it() -> None:
    asked = threading.Event()
    failures = [RuntimeError("once")]

    def ends() -> LogEnds:
        if failures:
            raise failures.pop()
        asked.set()
        return LogEnds(Kafka("127.0.0.1:1"))

    poller = EndOffsetPoller(list, ends, SystemClock(), every_s=0.01)
    poller.start()
    try:
        assert asked.wait(30)
    finally:
        poller.stop()


def test_a_read_that_waits_starts_a_poll_at_once() -> None:
    polls: queue.SimpleQueue[None] = queue.SimpleQueue()

    def replicas() -> list[Replica]:
        polls.put(None)
        return []

    poller = EndOffsetPoller(replicas, lambda: LogEnds(Kafka("127.0.0.1:1")), SystemClock(), every_s=3600)
    poller.start()
    try:
        polls.get(timeout=30)
        poller.ask_soon()
        polls.get(timeout=30)
    finally:
        poller.stop()
