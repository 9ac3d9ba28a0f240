"""Where the committed records of a log end. Code that restores or copies state asks here alone.

The end that the broker reports to `read_committed` readers is the last stable offset: the first record of the earliest
open transaction. It is the right end for an input, which is read on later. It is not the end of a state: behind the
open transaction of one writer there may be records that another has committed. A clean-up that hangs hides what the
app commits, and rows that are restored without it are old.

So the end of what is written is asked first, with open transactions. Everything that was committed by then lies in
front of it, and once the last stable offset has reached it, readers see all of that.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import structlog

from storekeeper.changelog.errors import OpenTransactionError
from storekeeper.changelog.log_bounds import END, TopicAndPartition, offsets_of
from storekeeper.kafka.connection import Kafka

PATIENCE_S = 150.0
"""Longer than brokers let a task's transaction stay open by default, and they look every 10 s."""
_WARN_AFTER_S = 1.0
_FIRST_PAUSE_S = 0.005
_LONGEST_PAUSE_S = 0.1

_log = structlog.get_logger(__name__)


def _nobody(_: TopicAndPartition) -> None:
    pass


def committed_ends(
    kafka: Kafka, partitions: Iterable[TopicAndPartition], waits: Callable[[TopicAndPartition], None] = _nobody
) -> dict[TopicAndPartition, int]:
    """An end of each partition, exclusive, with every record in front of it that is committed when this is called.

    Waits for the transactions that are open then, which also covers a commit that the broker has confirmed before each
    partition has its mark. `waits` is called with a partition again and again while its transaction is awaited for more
    than a second.

    Raises:
        OpenTransactionError: a transaction stays open.
        BrokerUnavailableError: the broker doesn't answer, or doesn't know a partition.
    """
    requests = dict.fromkeys(partitions, END)
    written = offsets_of(kafka, requests, isolation="read_uncommitted")
    began_s, pause_s, has_warned = time.monotonic(), _FIRST_PAUSE_S, False
    while True:
        stable = offsets_of(kafka, requests)
        hidden = [where for where, end in stable.items() if end < written[where]]
        if not hidden:
            return stable
        waited_s = time.monotonic() - began_s
        topic, partition = first = min(hidden)
        if waited_s > PATIENCE_S:
            raise OpenTransactionError(
                f"a transaction is open in {topic}-{partition} since offset {stable[first]} and hides what is "
                "committed behind it: end its process (a clean-up?), or wait until the broker gives it up"
            )
        if waited_s > _WARN_AFTER_S:
            if not has_warned:
                _log.warning("open_transaction_awaited", topic=topic, partition=partition, since_offset=stable[first])
            has_warned = True
            waits(first)
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
