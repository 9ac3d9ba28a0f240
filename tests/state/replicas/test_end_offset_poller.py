"""The thread that asks where logs end: it outlives what nobody foresaw."""

from __future__ import annotations

import threading

from state.changelog.log_ends import LogEnds
from state.clock import SystemClock
from state.kafka.connection import Kafka
from state.replicas.end_offset_poller import EndOffsetPoller


def test_an_error_at_its_start_does_not_end_it() -> None:
    asked = threading.Event()
    failures = [RuntimeError("once")]

    def ends() -> LogEnds:
        if failures:
            raise failures.pop()
        asked.set()
        return LogEnds(Kafka("127.0.0.1:1"))

    watch = EndOffsetPoller(list, ends, SystemClock(), every_s=0.01)
    watch.start()
    try:
        assert asked.wait(30)
    finally:
        watch.stop()
