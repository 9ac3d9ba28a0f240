"""Running a batch again without the records that it fails on.

The task that failed is discarded, and nothing of it stays. Another one, with guards around the user's functions, runs
the batch from the committed state. It notes how to take back what each record changes:

    records   a b c d e f g        d fails: what it has changed so far, anywhere in the task, is taken back
              a b c   e f g        d is a dead letter, and the rest goes on

So the outcome is that of the same batch without d, and a record that fails takes no longer than one that doesn't,
however much waits in the task.

A row that waited in the task, and was let go while another record was under way, is left out itself, in the same way:
see `Guards.releasing`. A processor may keep something outside of its stores: it is made anew if it had taken a record
that is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from storekeeper.stores.suppliers import StoreSupplier
from storekeeper.topology.failures import OnError, is_of_record
from storekeeper.topology.guards import CarefulGuards, letter_of
from storekeeper.topology.records import NOWHERE, DeadLetter, OriginOf, Place, RecordFields, StoreChange
from storekeeper.topology.sub_topology import SubTopology
from storekeeper.topology.task import Task
from storekeeper.topology.times import LATEST_MS

R = TypeVar("R")
T = TypeVar("T")

_MOST = 1000
"""How many records are taken at once, at most."""


class CarefulTask(Task):
    """A task that leaves out the records which its operators fail on. It runs one batch. Not thread-safe."""

    def __init__(
        self,
        sub_topology: SubTopology,
        partition: int,
        supplier: StoreSupplier,
        *,
        progress: bytes = b"{}",
        global_tables: Mapping[str, Callable[[Any], Any]] | None = None,
        on_error: OnError = OnError.DEAD_LETTER,
        latest_ms: int = LATEST_MS,
        check_change: Callable[[StoreChange], None] = lambda _: None,
        origin_of: OriginOf = lambda place: place,
    ) -> None:
        """Builds the operators; see `Task`.

        `check_change` raises a `SerializationError` for a change that the store's changelog would refuse.
        """
        self._guards = CarefulGuards(on_error, check_change)
        super().__init__(
            sub_topology, partition, supplier, progress=progress, global_tables=global_tables, on_error=on_error,
            latest_ms=latest_ms, guards=self._guards, origin_of=origin_of,
        )  # fmt: skip
        self._dead_letters = self._guards.letters

    def process(self, records: Iterable[RecordFields]) -> None:
        """Takes records in their order, and leaves out those that operators fail on.

        Raises:
            Exception: an error that no record is to blame for, or of an operator that is to fail the batch.
        """
        # Several at once cost less, and twice as many each time lose no more than they have saved before one fails.
        records = list(records)
        take, attempt = super().process, self._guards.attempt
        at, size, grows = 0, 1, True
        while at < len(records):
            part = records[at : at + size]
            way = _Way(part)
            failure = attempt(partial(take, way))
            if failure is None:
                at += len(part)
                size, grows = min(2 * size, _MOST) if grows else 1, True
            elif len(part) > 1:
                # One is to blame that was taken alone: the next to be, if it is known which one fails.
                size, grows = way.taken % len(part) or 1, False
            else:
                self._dead_letters.append(letter_of(part[0], failure))
                at, size = at + 1, 1


def run_batch(
    plain: Callable[[R], tuple[T, Sequence[DeadLetter]]],
    careful: Callable[[R], tuple[T, Sequence[DeadLetter]]],
    records: R,
    without: Callable[[R, frozenset[Place]], R | None],
) -> tuple[T, list[DeadLetter]]:
    """Runs a batch, and again until the records that are left out hold up no others.

    So a batch takes its records in the same order whenever it is run, whichever of them are left out beforehand.

    Args:
        plain: runs it in a plain task, which leaves out the records that their sources refuse.
        careful: runs it anew in a careful task: after a record has failed, and for another order.
        records: those of the batch.
        without: the records without some, in the order of these alone; None if that is the order which they have.

    Returns:
        What came of the last run, and all dead letters.

    Raises:
        Exception: an error that no record is to blame for, or of an operator that is to fail the batch.
    """
    letters: list[DeadLetter] = []
    run = plain
    while True:
        try:
            done, new = run(records)
        except Exception as error:
            if run is careful or not is_of_record(error):
                raise
            run = careful
            continue
        left_out = [letter for letter in new if letter.record.offset != NOWHERE]
        rest = without(records, frozenset(letter.record[:3] for letter in left_out)) if left_out else None
        if rest is None:
            return done, [*letters, *new]
        letters += left_out
        run, records = careful, rest


class _Way:
    """Records on their way into a task.

    Attributes:
        taken: how many were taken, without the one under way.
    """

    def __init__(self, records: Sequence[RecordFields]) -> None:
        self._records = records
        self.taken = 0

    def __iter__(self) -> Iterator[RecordFields]:
        for record in self._records:
            yield record
            self.taken += 1
