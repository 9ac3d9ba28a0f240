"""Batches are planned before they run, run again until they are finished, and stop between two. Spark is played."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from storekeeper.changelog.position import Position
from storekeeper.engine.runtime import batch_query
from storekeeper.engine.runtime import checkpoint as checkpoint_module
from storekeeper.engine.runtime.batch_query import BatchQuery, BatchRefusedError, never
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.locations import entries, write_in_one_step


class PlayedContext:
    """A `SparkContext` whose jobs end once they are cancelled."""

    def __init__(self) -> None:
        self.cancelled = threading.Semaphore(0)

    def setJobGroup(self, *_: object, **__: object) -> None:  # noqa: N802 (Spark's name)
        pass

    def cancelJobGroup(self, _: str) -> None:  # noqa: N802 (Spark's name)
        self.cancelled.release()


CONTEXT: Any = PlayedContext()


class DiedError(BaseException):
    """What a killed driver comes to here."""


def at(offset: int) -> Position:
    return Position({"in": {0: offset}})


class Plans:
    """Plans a record a batch, of those that there are."""

    at_once = 1

    def __init__(self, records: int, begin: int = 0) -> None:
        self.records, self.begin = records, begin

    def first(self) -> Position:
        return at(self.begin)

    def next(self, position: Position) -> tuple[Position, Position]:
        return position, at(min(self.records, (position.offset("in", 0) or 0) + self.at_once))


Make = Callable[..., BatchQuery]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    monkeypatch.setattr(CONTEXT, "cancelled", threading.Semaphore(0))  # without what other tests have left
    monkeypatch.setattr(batch_query, "InheritableThread", threading.Thread)
    made: list[BatchQuery] = []

    def query(
        plans: Plans, process: Callable[[int], None], folder: str = "gen-1", due: Callable[[], bool] = never
    ) -> BatchQuery:
        made.append(BatchQuery(CONTEXT, "app", plans, process, BatchCheckpoint(tmp_path / folder), 0.0, due))
        return made[-1].start()

    yield query
    for each in made:
        each.stop()


def test_each_batch_is_planned_and_then_finished(make: Make, tmp_path: Path) -> None:
    ran: list[tuple[int, int | None]] = []
    checkpoint = BatchCheckpoint(tmp_path / "gen-1")
    query = make(Plans(3), lambda batch: ran.append((batch, checkpoint.last_planned_batch())))
    query.settle(30)
    assert ran == [(0, 0), (1, 1), (2, 2)]
    assert checkpoint.committed_position() == at(3)
    assert [report.batch_id for report in query.reports] == [0, 1, 2]
    assert query.has_data is False
    assert checkpoint.query_id() is not None


def test_a_batch_that_fails_runs_again_as_it_was_planned(make: Make) -> None:
    def fail(_: int) -> None:
        raise LookupError

    plans = Plans(5, begin=2)
    first = make(plans, fail)
    with pytest.raises(LookupError):
        first.settle(threading.TIMEOUT_MAX)  # it does not wait for that
    first._thread.join(30)
    assert not first.is_active
    checkpoint, query_id = first.checkpoint, first.checkpoint.query_id()
    assert checkpoint.source_ranges(0) == {"in": {0: (2, 3)}}
    plans.records, plans.begin = 9, 4  # there is more, and the first records are deleted
    ranges: list[object] = []
    second = make(plans, lambda batch: ranges.append(checkpoint.source_ranges(batch)))
    second.settle(30)
    assert ranges[:2] == [{"in": {0: (2, 3)}}, {"in": {0: (3, 4)}}]
    assert checkpoint.query_id() == query_id


def test_a_running_batch_is_finished_and_no_other_begins(make: Make) -> None:
    began, go, ran = threading.Event(), threading.Event(), list[int]()

    def wait(batch: int) -> None:
        began.set()
        assert go.wait(30)
        ran.append(batch)

    query = make(Plans(9), wait)
    assert began.wait(30)
    assert query.drain(0.01) is False
    go.set()
    assert query.drain(30) is True
    assert ran == [0]
    assert query.checkpoint.last_committed_batch() == 0
    assert query.failure is None


def test_a_batch_that_is_planned_while_the_query_is_stopped_does_not_begin(make: Make) -> None:
    began, go, ran = threading.Event(), threading.Event(), list[int]()

    class Slow(Plans):
        def next(self, position: Position) -> tuple[Position, Position]:
            began.set()
            assert go.wait(30)
            return super().next(position)

    query = make(Slow(9), ran.append)
    assert began.wait(30)
    assert query.drain(0.01) is False
    go.set()
    assert query.drain(30) is True
    assert (ran, query.checkpoint.last_planned_batch(), query.checkpoint.last_committed_batch()) == ([], 0, None)


def test_a_batch_is_later_than_the_one_before_though_the_clock_was_set_back(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    plans, times = Plans(2), iter([5000, 4000, 3000])
    monkeypatch.setattr(batch_query, "SystemClock", lambda: SimpleNamespace(now_ms=lambda: next(times)))
    first = make(plans, lambda _: None)
    first.settle(30)
    first.stop()
    plans.records = 3
    make(plans, lambda _: None).settle(30)
    assert [first.checkpoint.planned_at_ms(batch) for batch in range(3)] == [5000, 5001, 5002]


def test_the_plans_of_the_last_hundred_batches_are_kept(make: Make) -> None:
    query = make(Plans(103), lambda _: None)
    query.settle(60)
    checkpoint = query.checkpoint
    kept = {entry.name for entry in entries(checkpoint.path / "offsets")}
    assert kept == {entry.name for entry in entries(checkpoint.path / "commits")} == {str(at) for at in range(3, 103)}


def test_a_batch_that_is_refused_ends_the_query_and_stays_planned(make: Make) -> None:
    def refuse(batch: int) -> None:
        if batch == 1:
            raise BatchRefusedError

    query = make(Plans(9), refuse)
    with pytest.raises(TimeoutError):
        query.settle(30)
    query._thread.join(30)
    assert not query.is_active
    assert query.failure is None
    assert (query.checkpoint.last_committed_batch(), query.checkpoint.last_planned_batch()) == (0, 1)


def test_a_batch_that_runs_is_data_from_its_plan_to_its_end(make: Make) -> None:
    plans, began, go = Plans(0), threading.Event(), threading.Event()

    def wait(_: int) -> None:
        began.set()
        assert go.wait(30)

    query = make(plans, wait)
    query.settle(30)
    assert query.has_data is False
    plans.records = 1
    assert began.wait(30)
    states = [query.has_data]
    go.set()
    query.settle(30)
    states.append(query.has_data)
    assert states == [True, False], "an app that hangs in a batch is not idle"


def test_a_batch_without_records_runs_when_one_is_due(make: Make) -> None:
    due, began, go = [True], threading.Event(), threading.Event()

    def process(batch: int) -> None:
        if batch == 2:
            due.clear()
            began.set()
            assert go.wait(30)

    query = make(Plans(2), process, due=lambda: bool(due))
    assert began.wait(30)
    assert query.has_data, "an app that hangs in such a batch is not idle"
    go.set()
    query.settle(30)
    checkpoint = query.checkpoint
    assert [checkpoint.source_ranges(batch)["in"][0] for batch in range(3)] == [(0, 1), (1, 2), (2, 2)]
    assert checkpoint.last_committed_batch() == 2
    query.settle(30)
    assert (checkpoint.last_planned_batch(), query.has_data) == (2, False)


def test_a_query_settles_though_batches_without_records_are_always_due(make: Make) -> None:
    query = make(Plans(0), lambda _: None, due=lambda: True)
    query.settle(30)
    assert query.is_active


def test_a_batch_without_records_that_fails_runs_again(make: Make) -> None:
    def fail(_: int) -> None:
        raise LookupError

    first = make(Plans(0), fail, due=lambda: True)
    with pytest.raises(LookupError):
        first.settle(30)
    first._thread.join(30)
    assert first.checkpoint.last_planned_batch() == 0
    ran: list[int] = []
    second = make(Plans(0), ran.append)
    second.settle(30)
    assert (ran, second.checkpoint.last_committed_batch()) == ([0], 0)


def test_a_job_that_begins_while_the_query_is_stopped_is_cancelled_too(make: Make) -> None:
    began = threading.Event()

    def two_jobs(_: int) -> None:
        began.set()
        for _job in range(2):
            assert CONTEXT.cancelled.acquire(timeout=30)

    query = make(Plans(1), two_jobs)
    assert began.wait(30)
    query.stop()
    assert not query.is_active
    assert query.failure is None, "both jobs were cancelled"


def test_a_plan_is_durable_before_its_batch_runs(make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, seen = set[str](), list[set[str]]()
    monkeypatch.setattr(os, "fsync", lambda file: synced.add(str(Path(f"/proc/self/fd/{file}").readlink())))
    make(Plans(2), lambda _: seen.append({*synced})).settle(30)
    folder = tmp_path / "gen-1"
    drafts = [str(folder / name) for name in (".beginning.{}.new", "offsets/.0.{}.new", "offsets/.1.{}.new")]
    first, second = seen
    assert {name.format(os.getpid()) for name in drafts[:2]} | {str(folder / "offsets"), str(folder)} <= first
    assert drafts[2].format(os.getpid()) in second - first


class GrownPlans(Plans):
    """The same, and from the second batch on a topic whose log is cut before each plan."""

    cut = 5000

    def next(self, position: Position) -> tuple[Position, Position]:
        start, end = super().next(position)
        self.cut += 10
        if not position.offset("in", 0):
            return start, end
        read, is_more = position.offset("clicks", 0) or self.cut, end.offset("in", 0) != position.offset("in", 0)
        return start.at("clicks", 0, read), end.at("clicks", 0, read + is_more)


class Deaths:
    """Dies at a step of a query: before or behind a write to its checkpoint, or a batch."""

    have_come = are_over = False

    def __init__(self, step: int) -> None:
        self._left = step

    def __call__(self) -> None:
        self._left -= 1
        if self._left < 0 and not self.are_over:
            self.have_come = True
            raise DiedError


def test_wherever_the_driver_dies_each_batch_keeps_its_records(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, died = -1, True
    while died:
        step += 1
        checkpoint, ran, plans = BatchCheckpoint(tmp_path / f"gen-{step}"), dict[int, list[Any]](), GrownPlans(3)
        may_die = Deaths(step)

        def written(place: Path, data: bytes, *, durable: bool, may_die: Deaths = may_die) -> None:
            may_die()
            write_in_one_step(place, data, durable=durable)
            may_die()

        def process(
            batch: int,
            checkpoint: BatchCheckpoint = checkpoint,
            may_die: Deaths = may_die,
            ran: dict[int, list[Any]] = ran,
        ) -> None:
            may_die()
            ran.setdefault(batch, []).append(checkpoint.source_ranges(batch))
            may_die()

        monkeypatch.setattr(checkpoint_module, "write_in_one_step", written)
        with suppress(DiedError):
            first = make(plans, process, checkpoint.path.name)
            first.settle(30)
            first.stop()  # it did not die, and would plan what comes now as well
        died, may_die.are_over = may_die.have_come, True
        # There is more now, and a batch that is planned takes more of it.
        plans.records, plans.at_once, plans.begin = 7, 3, 1
        make(plans, process, checkpoint.path.name).settle(30)
        assert all(ranges == ran[batch][0] for batch in ran for ranges in ran[batch]), (step, ran)
        for topic in ("in", "clicks"):
            spans = [ran[batch][0][topic][0] for batch in sorted(ran) if topic in ran[batch][0]]
            assert [start for start, _ in spans[1:]] == [end for _, end in spans[:-1]], (step, ran)
            assert spans[0][0] in ({0, 1} if topic == "in" else range(5010, 6000))
        assert ran[max(ran)][0]["in"][0][1] == 7
    assert step > 20, "there were many places to die at"
