from __future__ import annotations

import itertools
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SKIPPED, OutputRecord, SourceRecord
from spark_apps.processor.state import BatchState, MemoryTaskState
from spark_apps.processor.task import TaskPlan, run_task
from spark_apps.records.poison import PoisonRecordError
from state.changelog.partitioner import partition_for

PLAN = TaskPlan(
    app="app",
    sources=("first", "second"),
    changelogs={"store": "app-store-changelog"},
    partitions={"app-store-changelog": 7},
    dead_letters={"first": "first-dlq"},
    max_ahead_ms=1000,
    timer_step_ms=10,
)


def record(offset: int, value: bytes = b"", *, topic: str = "first", timestamp_ms: int = 10**9) -> SourceRecord:
    return SourceRecord(topic, 3, offset, timestamp_ms, b"k", value)


@dataclass
class Scripted:
    """Does what a record's value says: `at N`, `timer N KEY`, `put KEY`, `poison`, `forward`."""

    seen: list[tuple[str, int]] = field(default_factory=list)
    fired: list[tuple[bytes, int]] = field(default_factory=list)

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        self.seen.append((record.topic, record.offset))
        command, *rest = (record.value or b"").split()
        if command == b"poison":
            raise PoisonRecordError("so it is")
        if command == b"at":
            context.advance(int(rest[0]))
        elif command == b"timer":
            context.schedule(int(rest[0]), rest[1])
        elif command == b"put":
            context.put(rest[0], (context.get(rest[0]) or b"") + b".")
            context.change("store", rest[0], context.get(rest[0]), inner_key=rest[0])
        else:
            context.forward("out", b"k", b"v")

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        self.fired.append((key, context.stream_time_ms))
        if key == b"again":
            context.schedule(context.stream_time_ms, b"once-more")


def test_records_are_taken_by_source_and_offset() -> None:
    processor = Scripted()
    shuffled = [record(4, b"f"), record(9, b"f", topic="second"), record(1, b"f"), record(2, b"f", topic="second")]
    run_task(processor, PLAN, MemoryTaskState(), shuffled[::-1])
    assert processor.seen == [("first", 1), ("first", 4), ("second", 2), ("second", 9)]


def test_only_the_last_change_of_a_row_is_written_to_the_partition_of_its_inner_key() -> None:
    state = MemoryTaskState()
    assert run_task(Scripted(), PLAN, state, [record(n, b"put a") for n in range(3)]) == [
        OutputRecord("app-store-changelog", b"a", b"...", partition_for(b"a", 7))
    ]
    assert state.rows[b"ka"] == b"..."


def test_poison_goes_where_the_plan_says_or_is_counted() -> None:
    letters = run_task(
        Scripted(), PLAN, MemoryTaskState(), [record(5, b"poison"), record(6, b"poison", topic="second")]
    )
    assert letters[1] == SKIPPED
    assert letters[0][:4] == ("first-dlq", b"k", b"poison", None)
    assert dict(letters[0].headers) == {
        "dlq.topic": b"first",
        "dlq.partition": b"3",
        "dlq.offset": b"5",
        "dlq.timestamp": b"1000000000",
        "dlq.app": b"app",
        "dlq.error.class": b"PoisonRecordError",
        "dlq.error.message": b"so it is",
    }


def test_an_event_of_the_far_future_is_poison_and_moves_no_time() -> None:
    processor, state = Scripted(), MemoryTaskState()
    output = run_task(processor, PLAN, state, [record(0, b"at 1001", timestamp_ms=0), record(1, b"at 5")])
    assert [letter.topic for letter in output] == ["first-dlq"]
    run_task(processor, PLAN, state, [record(2, b"timer 6 a")])
    assert processor.fired == []


def test_timers_fire_once_stream_time_has_come_and_at_whole_steps() -> None:
    processor, state = Scripted(), MemoryTaskState()
    run_task(processor, PLAN, state, [record(0, b"timer 11 b"), record(1, b"timer 20 a"), record(2, b"timer 5 c")])
    run_task(processor, PLAN, state, [record(3, b"timer 15 b"), record(4, b"at 19")])
    assert processor.fired == [(b"c", 19)]
    run_task(processor, PLAN, state, [record(5, b"at 20"), record(6, b"at 40")])
    assert processor.fired == [(b"c", 19), (b"a", 20), (b"b", 20)]
    assert set(state.rows) == {b"m"}


def test_a_timer_that_a_timer_sets_and_that_is_due_fires_at_once() -> None:
    processor = Scripted()
    run_task(processor, PLAN, MemoryTaskState(), [record(0, b"timer 5 again"), record(1, b"at 100")])
    assert processor.fired == [(b"again", 100), (b"once-more", 100)]


commands = st.lists(
    st.one_of(
        st.integers(0, 60).map(lambda n: b"at %d" % n),
        st.tuples(st.integers(0, 60), st.sampled_from([b"a", b"b", b"again"])).map(lambda t: b"timer %d %s" % t),
        st.sampled_from([b"put a", b"put b"]),
    ),
    max_size=25,
)


@given(commands, st.sets(st.integers(0, 25)))
def test_it_makes_no_difference_how_records_are_divided_into_batches(values: list[bytes], cuts: set[int]) -> None:
    records = [record(offset, value) for offset, value in enumerate(values)]
    whole, parts = (Scripted(), MemoryTaskState()), (Scripted(), MemoryTaskState())
    whole_output = run_task(whole[0], PLAN, whole[1], records)
    bounds = [0, *sorted(cuts), len(records)]
    outputs = [run_task(parts[0], PLAN, parts[1], records[a:b]) for a, b in itertools.pairwise(bounds) if a < b]
    assert whole[0].fired == parts[0].fired
    rows = {out.key: out.value for part in outputs for out in part}
    assert {out.key: out.value for out in whole_output} == rows
    processors = [{k: v for k, v in state.rows.items() if k.startswith(b"k")} for state in (whole[1], parts[1])]
    assert processors[0] == processors[1]


def test_a_batch_reads_and_writes_each_key_once() -> None:
    class Counting(MemoryTaskState):
        calls = 0

        def get(self, key: bytes) -> bytes | None:
            self.calls += 1
            return super().get(key)

        def put(self, key: bytes, value: bytes) -> None:
            self.calls += 1
            super().put(key, value)

    state = Counting()
    batch = BatchState(state)
    for _ in range(10):
        batch.put(b"a", (batch.get(b"a") or b"") + b".")
    batch.flush()
    assert state.calls == 2
    assert state.rows == {b"a": b"." * 10}


def test_what_is_removed_is_gone_for_the_batch_and_after_it() -> None:
    state = MemoryTaskState({b"a": b"1"})
    batch = BatchState(state)
    batch.put(b"a", None)
    assert batch.get(b"a") is None
    assert state.rows == {b"a": b"1"}
    batch.flush()
    assert state.rows == {}


def test_a_task_needs_its_sources_known() -> None:
    with pytest.raises(KeyError):
        run_task(Scripted(), PLAN, MemoryTaskState(), [record(0, b"f", topic="unknown")])
