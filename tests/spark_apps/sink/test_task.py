"""One task's writing on a real broker, ended at every point between its first record and Spark's note of it."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException
from spark_apps.sink import task_input
from spark_apps.sink.markers import MARKER_TOPIC_CONFIG
from spark_apps.sink.task import SinkPlan, TaskOutcome, TaskWriter, source_slot, write_task

from spark_apps.engine.task_input import TruncatedInputError, check_input_complete, remembering
from spark_apps.engine.topic_rules import BY_KEY, SinkRecord, TopicRule
from spark_apps.engine.write_errors import BrokerRefusedError, FencedWriterError, UnrepeatableBatchError
from spark_apps.errors import PartitionsChangedError
from tests.broker import Broker
from tests.integration.topics import read_topic
from tests.waiting import eventually

pytestmark = pytest.mark.broker

_numbers = itertools.count()


class KilledError(BaseException):
    """Stands for the end of the process."""


@dataclass
class Sink:
    """Topics of one test, and tasks that write to them."""

    bootstrap: str
    plan: SinkPlan
    broker: Broker

    def write(self, values: list[str], batch_id: int, *, slot: int = 0, **changes: object) -> TaskOutcome:
        plan = replace(self.plan, batch_id=batch_id, **changes)  # type: ignore[arg-type]
        outcome = write_task(iter([rows_of(values, slot)]), slot, self.records_of, plan)
        assert outcome is not None
        return outcome

    def writer(self, batch_id: int, slot: int = 0) -> TaskWriter:
        return TaskWriter(replace(self.plan, batch_id=batch_id), slot)

    def records_of(self, batches: Iterator[pa.RecordBatch]) -> Iterator[SinkRecord]:
        for batch in batches:
            yield from self.records(batch.column("value").to_pylist())

    def records(self, values: list[str]) -> list[SinkRecord]:
        topic = self.plan.app + "-out"
        return [(topic, b"k" + value.encode(), value.encode(), [("source", b"x")], BY_KEY) for value in values]

    def seen(self, topic: str = "out") -> list[str]:
        return sorted(
            (record.value or b"").decode() for record in read_topic(self.bootstrap, f"{self.plan.app}-{topic}")
        )


def rows_of(values: list[str], partition: int = 0) -> pa.RecordBatch:
    columns = [pa.array(values, pa.string()), pa.array([partition] * len(values), pa.int32())]
    return pa.record_batch(columns, names=["value", "partition"])


@pytest.fixture
def sink(broker: Broker) -> Sink:
    app = f"sink-{next(_numbers)}"
    broker.create_topic(f"{app}-out", 2, {"max.message.bytes": "20000"})
    broker.create_topic(f"{app}-dlq", 1)
    broker.create_topic(f"{app}-markers", 3, MARKER_TOPIC_CONFIG)
    plan = SinkPlan(
        bootstrap=broker.bootstrap,
        app=app,
        transactional_id=app,
        query_id="q",
        batch_id=-1,
        markers=f"{app}-markers",
        source_topics=(),
        partitions={},
        rules={f"{app}-out": TopicRule(20_000), f"{app}-dlq": TopicRule(1_000_000)},
        refused_to=f"{app}-dlq",
        dead_letter_topics=frozenset({f"{app}-dlq"}),
        producer={"partitioner": "murmur2_random", "message.max.bytes": 2_000_000, "log_level": 0},
        timeout_s=30,
    )
    return Sink(broker.bootstrap, plan, broker)


def test_a_batch_is_written_once_however_often_it_is_run(sink: Sink) -> None:
    first = sink.write(["a", "b"], 0)
    again = sink.write(["a", "b"], 0)
    assert (first.skipped, again.skipped) == (False, True)
    assert (again.rows, again.records) == (2, 2)
    sink.write(["c"], 1)
    assert sink.write(["c"], 1).skipped
    assert sink.seen() == ["a", "b", "c"]


def test_what_a_killed_task_left_behind_is_never_seen(sink: Sink) -> None:
    sink.write(["a"], 0)
    killed = sink.writer(1)
    killed.write(sink.records(["b", "c"]))
    killed._producer.flush(30)  # all of it is at the broker
    assert not sink.write(["b", "c"], 1).skipped
    assert sink.seen() == ["a", "b", "c"]


def test_a_task_that_fails_half_way_leaves_nothing(sink: Sink) -> None:
    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[SinkRecord]:
        yield from sink.records_of(batches)
        raise KilledError

    with pytest.raises(KilledError):
        write_task(iter([rows_of(["a"])]), 0, failing, replace(sink.plan, batch_id=0))
    assert sink.seen() == []
    assert not sink.write(["a"], 0).skipped
    assert sink.seen() == ["a"]


def test_tasks_that_had_committed_stay_and_the_others_write(sink: Sink) -> None:
    sink.write(["a"], 7, slot=0)
    killed = sink.writer(7, slot=1)
    killed.write(sink.records(["b"]))
    assert [sink.write([value], 7, slot=slot).skipped for slot, value in enumerate("abc")] == [True, False, False]
    assert sink.seen() == ["a", "b", "c"]


def test_a_zombie_is_shut_out(sink: Sink) -> None:
    zombie = sink.writer(3)
    zombie.write(sink.records(["a"]))
    sink.write(["a"], 3)
    with pytest.raises(FencedWriterError, match="a newer attempt"):
        zombie.commit(1)
    assert sink.seen() == ["a"]


@pytest.mark.parametrize("step", ["write", "commit"])
def test_a_zombie_that_has_noticed_says_so_too(sink: Sink, step: str) -> None:
    zombie = sink.writer(3)
    sink.write(["a"], 3)
    zombie.write(sink.records(["a"]))
    eventually(lambda: _is_broken(zombie), 60, "the producer has noticed")
    with pytest.raises(FencedWriterError, match="a newer attempt"):
        zombie.write(sink.records(["b"])) if step == "write" else zombie.commit(1)
    assert sink.seen() == ["a"]


def _is_broken(writer: TaskWriter) -> bool:
    """Asks librdkafka without having it serve the events that would tell the writer."""
    try:
        writer._producer.produce(writer._plan.markers or "", b"never committed")
    except KafkaException as error:
        return bool(error.args[0].code() == KafkaError._FATAL)
    return False


def test_a_zombie_that_starts_late_finds_the_marker(sink: Sink) -> None:
    sink.write(["a"], 3)
    late = sink.writer(3)
    late.write(sink.records(["a"]))
    assert late.commit(1)
    sink.write(["b"], 4)
    with pytest.raises(UnrepeatableBatchError, match="batch 4 is written already"):
        sink.writer(3)
    assert sink.seen() == ["a", "b"]


def test_a_marker_is_found_behind_many_attempts_that_failed(sink: Sink) -> None:
    sink.write(["a"], 0)
    for _ in range(6):
        failed = sink.writer(1)
        failed.write(sink.records(["b"]))
        failed._produce(sink.plan.markers, b"{}", b"q/0", 0)
        failed._producer.flush(30)
        failed.abandon()
    assert sink.write(["a"], 0).skipped
    assert sink.seen() == ["a"]


def test_other_rows_under_the_same_id_are_refused(sink: Sink) -> None:
    sink.write(["a", "b"], 0)
    with pytest.raises(UnrepeatableBatchError, match="its rows are not those"):
        sink.write(["a", "bb"], 0)
    with pytest.raises(UnrepeatableBatchError, match="its rows are not those"):
        sink.write(["a"], 0)


def test_the_markers_of_an_abandoned_checkpoint_mean_nothing(sink: Sink) -> None:
    sink.write(["a"], 9)
    assert not sink.write(["b"], 0, query_id="another").skipped
    assert sink.seen() == ["a", "b"]


def test_at_least_once_repeats_and_keeps_no_markers(sink: Sink) -> None:
    for _ in range(2):
        assert not sink.write(["a"], 0, markers=None).skipped
    assert sink.seen() == ["a", "a"]
    assert sink.seen("markers") == []


def test_a_record_that_its_topic_would_refuse_is_a_dead_letter_and_blocks_nobody(sink: Sink) -> None:
    outcome = sink.write(["a", "x" * 30_000, "b"], 0)
    assert (outcome.records, outcome.dead_letters) == (3, 1)
    assert sink.seen() == ["a", "b"]
    (dead,) = read_topic(sink.bootstrap, f"{sink.plan.app}-dlq")
    assert dead.value == b"x" * 30_000
    assert dead.headers["dlq.topic"] == f"{sink.plan.app}-out".encode()
    assert b"larger than the 20000" in (dead.headers["dlq.error.message"] or b"")
    assert sink.write(["a", "x" * 30_000, "b"], 0).skipped


def test_what_the_broker_alone_refuses_is_told_in_its_words_and_undone(sink: Sink) -> None:
    with pytest.raises(BrokerRefusedError, match="MSG_SIZE_TOO_LARGE"):
        sink.write(["a", "x" * 30_000], 0, rules={})
    assert sink.seen() == []


def test_the_cause_is_the_refused_record_and_not_those_that_were_thrown_away_for_it(sink: Sink) -> None:
    writer = sink.writer(0)
    writer._failed += [KafkaError(KafkaError._PURGE_QUEUE), KafkaError(KafkaError.MSG_SIZE_TOO_LARGE)]
    with pytest.raises(BrokerRefusedError, match="MSG_SIZE_TOO_LARGE"):
        writer._check()
    writer.abandon()


def test_a_topic_with_new_partitions_takes_nothing_of_an_open_transaction(sink: Sink) -> None:
    out = f"{sink.plan.app}-out"
    plan = replace(sink.plan, batch_id=0, partitions={out: 2})
    before = TaskWriter(plan, 0)
    before.write(sink.records(["a"]))
    sink.broker.add_partitions(out, 3)
    with pytest.raises(PartitionsChangedError, match=f"topic {out} has 3 partitions, .* made with 2"):
        before.commit(1)
    before.abandon()
    with pytest.raises(PartitionsChangedError):
        sink.write(["a"], 0, partitions={out: 2})
    with pytest.raises(PartitionsChangedError):
        sink.write(["a"], 0, partitions={out: 2}, markers=None)
    assert sink.seen() == []
    sink.write(["a"], 0, partitions={out: 3})
    assert sink.seen() == ["a"]


def test_rows_tell_their_slot_by_their_source() -> None:
    batch = pa.record_batch([pa.array(["b"]), pa.array([3], pa.int32())], names=["topic", "partition"])
    assert source_slot(batch, ("b",)) == 3
    assert source_slot(batch, ("a", "b")) == 7


def test_a_task_without_rows_writes_nothing(sink: Sink) -> None:
    sink.write(["a"], 0)
    assert write_task(iter([rows_of([])]), 0, sink.records_of, replace(sink.plan, batch_id=1)) is None
    assert len(sink.seen("markers")) == 1


def test_rows_that_end_because_the_jvm_ended_are_not_committed(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, jvm = socket.socketpair()
    monkeypatch.setattr(task_input, "_JVM", [])
    with ours:
        assert remembering(lambda connection, _: connection.fileno())(ours, True) == ours.fileno()
        check_input_complete()
        jvm.send(b"what follows the rows")
        check_input_complete()
        ours.recv(100)
        jvm.close()
        with pytest.raises(TruncatedInputError):
            sink.write(["half"], 0)
    assert sink.seen() == []
