"""What batches wrote since the start of the process, for the heartbeat and the metrics."""

from __future__ import annotations

from itertools import chain

import msgspec

from storekeeper.engine.dead_letters import Letters, by_kind

_LAST_BATCHES = 100
"""Far more than end between two heartbeats."""


class Written(msgspec.Struct, frozen=True):
    """What a task, a batch, or all batches together wrote.

    Attributes:
        rows: how many records of topics were read.
        letters: the records that became dead letters.
        replayed_tasks: how many tasks found their records committed by an earlier attempt.
        dropped: how many records were left out: they came too late, or had no key.
        stream_time_ms: the newest timestamp of all tasks, -1 before the first.
        timer: of one task alone, the number of its sub-topology, and in how many milliseconds it has a timer by the
            wall clock to fire; None if it has no such timer, or a replay has not built it.
    """

    rows: int = 0
    letters: tuple[Letters, ...] = ()
    replayed_tasks: int = 0
    dropped: int = 0
    stream_time_ms: int = -1
    timer: tuple[int, int] | None = None

    @property
    def dead_letters(self) -> int:
        """How many records became dead letters."""
        return sum(letters.count for letters in self.letters)

    def __add__(self, later: Written) -> Written:
        return Written(
            self.rows + later.rows,
            by_kind(chain(self.letters, later.letters)),
            self.replayed_tasks + later.replayed_tasks,
            self.dropped + later.dropped,
            max(self.stream_time_ms, later.stream_time_ms),
        )


encode_outcome = msgspec.msgpack.Encoder().encode
decode_outcome = msgspec.msgpack.Decoder(Written).decode
"""`Written` as bytes, from a task to its driver."""


class SinkMetrics:
    """Adds up what batches wrote. Only Spark's thread adds, any thread may read. `rows` has, by batch, how many records
    the last ones read.
    """

    def __init__(self) -> None:
        self.sum = Written()
        self.rows: dict[int, int] = {}

    def add(self, batch_id: int, batch: Written) -> None:
        """Counts what one batch wrote."""
        self.sum += batch
        self.rows = {**{known: self.rows[known] for known in list(self.rows)[-_LAST_BATCHES:]}, batch_id: batch.rows}
