"""One task's writing on a real broker, ended at every point between its first record and the next batch."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace

import pytest
from confluent_kafka import OFFSET_END, KafkaError, KafkaException, Message

from harness.broker import Broker
from harness.waiting import eventually
from storekeeper.apps.errors import (
    BrokerRefusedError,
    FencedWriterError,
    LostChangelogError,
    PartitionsChangedError,
    RefusedChangeError,
    UnrepeatableBatchError,
)
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.changelog.headers import SourceRanges
from storekeeper.engine.markers import MARKER_TOPIC_CONFIG, Marker
from storekeeper.engine.topic_rules import TopicRule
from storekeeper.engine.transaction import Slot, Transaction, WriterPlan
from storekeeper.topology.records import Output, StoreChange
from storekeeper.trace_context import TRACEPARENT
from tests.test_trace_context import TRACE

pytestmark = pytest.mark.broker

SOURCE = {"in": {0: (100, 200), 1: (7, 7)}}
_numbers = itertools.count()


def source_of(batch_id: int) -> SourceRanges:
    """The input of a batch; `SOURCE` is that of the first."""
    return {"in": {0: (100 + 100 * batch_id, 200 + 100 * batch_id), 1: (7, 7)}}


@dataclass
class App:
    """Topics of one test, and tasks that write to them."""

    plan: WriterPlan
    broker: Broker

    @property
    def topic(self) -> str:
        """The topic of its outputs."""
        return f"{self.plan.app}-out"

    def transaction(self, batch_id: int, *, slot: int = 0, query_id: str = "q", plan: WriterPlan | None = None,
                    source: SourceRanges | None = None) -> Transaction:  # fmt: skip
        place = Slot(f"{self.plan.app}-{slot}", f"{self.plan.app}-markers", slot, query_id.encode())
        return Transaction(plan or self.plan, place, batch_id, source_of(batch_id) if source is None else source)

    def outputs(self, values: list[str]) -> list[Output]:
        return [(b"k" + value.encode(), value.encode(), 1000, []) for value in values]

    def write(self, values: list[str], batch_id: int, *, slot: int = 0, query_id: str = "q") -> bool:
        """Runs a task; returns whether the batch was written before."""
        transaction = self.transaction(batch_id, slot=slot, query_id=query_id)
        if transaction.is_replay:
            return True
        transaction.write(self.topic, self.outputs(values))
        transaction.commit(b'{"values":%d}' % len(values))
        return False

    def committed(self, topic: str) -> list[Message]:
        return list(read_topic(self.broker.kafka, f"{self.plan.app}-{topic}"))

    def seen(self, topic: str = "out") -> list[str]:
        return sorted((message.value() or b"").decode() for message in self.committed(topic))


@pytest.fixture
def app(broker: Broker) -> App:
    name = f"writer-{next(_numbers)}"
    broker.create_topic(f"{name}-out", 2, {"max.message.bytes": "20000"})
    broker.create_topic(f"{name}-dlq", 1)
    broker.create_topic(f"{name}-markers", 3, MARKER_TOPIC_CONFIG)
    plan = WriterPlan(
        kafka=broker.kafka,
        app=name,
        partitions={},
        rules={f"{name}-out": TopicRule(20_000), f"{name}-dlq": TopicRule(1_000_000)},
        dead_letters=f"{name}-dlq",
        producer={"partitioner": "murmur2_random", "message.max.bytes": 2_000_000, "log_level": 0},
        timeout_s=30,
    )
    return App(plan, broker)


def test_a_batch_is_written_once_however_often_it_is_run(app: App) -> None:
    assert [app.write(["a", "b"], 0) for _ in range(2)] == [False, True]
    assert [app.write(["c"], 1) for _ in range(2)] == [False, True]
    assert app.seen() == ["a", "b", "c"]


def test_a_task_goes_on_with_the_progress_that_it_committed(app: App) -> None:
    assert app.transaction(0).committed is None
    app.write(["a", "b"], 0)
    committed = app.transaction(1).committed
    assert committed is not None
    assert committed == Marker(0, SOURCE, {}, b'{"values":2}')


def test_what_a_killed_task_left_behind_is_never_seen(app: App) -> None:
    app.write(["a"], 0)
    killed = app.transaction(1)
    killed.write(app.topic, app.outputs(["b", "c"]))
    killed._producer.flush(30)  # all of it is at the broker
    assert not app.write(["b", "c"], 1)
    assert app.seen() == ["a", "b", "c"]


def test_what_is_abandoned_is_never_seen(app: App) -> None:
    failed = app.transaction(0)
    failed.write(app.topic, app.outputs(["a"]))
    failed.abandon()
    assert app.seen() == []
    assert not app.write(["a"], 0)
    assert app.seen() == ["a"]


def test_tasks_that_had_committed_stay_and_the_others_write(app: App) -> None:
    app.write(["a"], 7, slot=0)
    killed = app.transaction(7, slot=1)
    killed.write(app.topic, app.outputs(["b"]))
    assert [app.write([value], 7, slot=slot) for slot, value in enumerate("abc")] == [True, False, False]
    assert app.seen() == ["a", "b", "c"]


def test_a_zombie_is_shut_out(app: App, capfd: pytest.CaptureFixture[str]) -> None:
    zombie = app.transaction(3)
    zombie.write(app.topic, app.outputs(["a"]))
    app.write(["a"], 3)
    with pytest.raises(FencedWriterError, match="a newer attempt"):
        zombie.commit(b"{}")
    assert app.seen() == ["a"]
    assert "rdkafka" not in capfd.readouterr().err, "the client is silent"


@pytest.mark.parametrize("step", ["write", "commit"])
def test_a_zombie_that_has_noticed_says_so_too(app: App, step: str) -> None:
    zombie = app.transaction(3)
    app.write(["a"], 3)
    zombie.write(app.topic, app.outputs(["a"]))
    eventually(lambda: _is_broken(zombie), 60, "the producer has noticed")
    with pytest.raises(FencedWriterError, match="a newer attempt"):
        zombie.write(app.topic, app.outputs(["b"])) if step == "write" else zombie.commit(b"{}")
    assert app.seen() == ["a"]


def _is_broken(transaction: Transaction) -> bool:
    """Asks librdkafka without having it serve the events that would tell the writer."""
    try:
        transaction._producer.produce(transaction._slot.markers, b"never committed", b"key")
    except KafkaException as error:
        return error.args[0].code() in (KafkaError._FATAL, KafkaError._STATE)
    return False


def test_a_transaction_that_takes_too_long_names_the_setting_that_allows_more(app: App) -> None:
    short = replace(app.plan, producer={**app.plan.producer, "transaction.timeout.ms": 1000}, timeout_s=1)
    slow = app.transaction(3, plan=short)
    slow.write(app.topic, app.outputs(["a"]))
    eventually(lambda: _is_broken(slow), 60, "the broker has given the transaction up")
    with pytest.raises(FencedWriterError, match="`transaction_timeout_ms`"):
        slow.commit(b"{}")
    assert app.seen() == []
    assert not app.write(["a"], 3)


def test_a_batch_that_is_older_than_the_marker_is_refused(app: App) -> None:
    app.write(["a"], 4)
    with pytest.raises(UnrepeatableBatchError, match="batch 4 is written already"):
        app.transaction(3)
    assert app.seen() == ["a"]


@pytest.mark.parametrize("source", [{"in": {0: (150, 400)}}, {"in": {0: (200, 400), 1: (6, 9)}}])
def test_input_that_a_committed_batch_has_read_is_refused_in_a_later_one(app: App, source: SourceRanges) -> None:
    app.write(["a"], 4)  # from an older copy of the checkpoint, whose batch 4 began and ended elsewhere
    app.transaction(6, source={"in": {0: (600, 700), 1: (7, 9)}}).abandon()
    with pytest.raises(UnrepeatableBatchError, match=r"batch 4 is written already and has read in\[.\] to .*old copy"):
        app.transaction(6, source=source)
    assert app.seen() == ["a"]


def test_a_task_whose_marker_was_deleted_is_not_taken_for_one_before_its_first_batch(app: App) -> None:
    app.write(["a"], 0)
    markers = f"{app.plan.app}-markers"
    app.broker.delete_records(markers, 0, OFFSET_END)
    with pytest.raises(LostChangelogError, match=f"topic {markers} begins at offset .* in partition 0"):
        app.transaction(0)
    assert not app.write(["b"], 0, slot=1)
    assert app.seen() == ["a", "b"]


def test_a_marker_is_found_behind_many_attempts_that_failed(app: App) -> None:
    app.write(["a"], 0)
    for _ in range(6):
        failed = app.transaction(1)
        failed.write(app.topic, app.outputs(["b"]))
        failed._producer.produce(failed._slot.markers, b"{}", failed._slot.key, 0)
        failed._producer.flush(30)
        failed.abandon()
    assert app.write(["a"], 0)
    assert app.seen() == ["a"]


@pytest.mark.parametrize("source", [{"in": {0: (100, 201), 1: (7, 7)}}, {"in": {0: (99, 200), 1: (7, 7)}}, {}])
def test_other_input_under_the_same_batch_is_refused(app: App, source: SourceRanges) -> None:
    app.write(["a", "b"], 0)
    with pytest.raises(UnrepeatableBatchError, match="it is written already, with other input"):
        app.transaction(0, source=source)


@pytest.mark.parametrize(
    ("again", "difference"),
    [
        ({"by-a": (2, "ef"), "by-b": (1, "cd")}, "passed 2 records on to shuffle by-a, and other ones now"),
        ({"by-a": (2, "ab"), "by-b": (3, "cd")}, "passed 1 records on to shuffle by-b, and 3 now"),
        ({"by-a": (2, "ab")}, "passed 1 records on to shuffle by-b, and 0 now"),
        ({"by-a": (2, "ab"), "by-b": (1, "cd"), "by-c": (1, "ef")}, "passed 0 records on to shuffle by-c, and 1 now"),
    ],
)
def test_a_repeated_task_that_passes_other_records_on_is_refused(
    app: App, again: dict[str, tuple[int, str]], difference: str
) -> None:
    forwarded = {"by-a": (2, "ab"), "by-b": (1, "cd")}
    app.transaction(0).commit(b"{}", forwarded)
    repeated = app.transaction(0)
    repeated.check_replay(forwarded)
    with pytest.raises(UnrepeatableBatchError, match=rf"{difference}: .*Go back to the code"):
        repeated.check_replay(again)


def test_the_markers_of_an_abandoned_checkpoint_mean_nothing(app: App) -> None:
    app.write(["a"], 9)
    assert not app.write(["b"], 0, query_id="another")
    assert app.seen() == ["a", "b"]


def test_a_record_that_its_topic_would_refuse_is_a_dead_letter_and_blocks_nobody(app: App) -> None:
    assert not app.write(["a", "x" * 30_000, "b"], 0)
    assert app.seen() == ["a", "b"]
    (dead,) = app.committed("dlq")
    assert dead.value() == b"x" * 30_000
    headers = dict(dead.headers() or ())
    assert headers["dlq.topic"] == f"{app.plan.app}-out".encode()
    assert b"larger than the 20000" in headers["dlq.error.message"]


def test_a_change_that_its_changelog_would_refuse_is_the_records_failure(app: App) -> None:
    transaction = app.transaction(0)
    change = StoreChange("rows", b"k", b"x" * 30_000, 0)
    with pytest.raises(RefusedChangeError, match="larger than the 20000"):
        transaction.change(app.topic, [], [change])
    with pytest.raises(RefusedChangeError, match="larger than the 20000"):
        transaction.check_change(app.topic, change)
    transaction.check_change(app.topic, change._replace(value=b"x" * 19_000))
    transaction.abandon()
    assert app.seen() == []


def test_a_time_that_its_topic_would_refuse_makes_a_dead_letter_of_today(app: App) -> None:
    rules = {**app.plan.rules, app.topic: TopicRule(20_000, max_ahead_ms=3_600_000)}
    transaction = app.transaction(0, plan=replace(app.plan, rules=rules))
    now_ms = int(time.time() * 1000)
    ahead_ms = {"a": 0, "b": 3_000_000, "c": 86_400_000}
    transaction.write(app.topic, [(b"k", name.encode(), now_ms + ahead, ()) for name, ahead in ahead_ms.items()])
    transaction.commit(b"{}")
    assert app.seen() == ["a", "b"]
    (dead,) = app.committed("dlq")
    assert dead.value() == b"c"
    assert dead.timestamp()[1] <= int(time.time() * 1000)
    assert b"further ahead than the 3600000 ms" in dict(dead.headers() or ())["dlq.error.message"]
    [refused] = transaction.refused
    assert (refused.topic, refused.error, refused.count) == (app.topic, "RefusedRecordError", 1)


def test_what_was_written_before_a_transaction_began_again_is_never_seen(app: App) -> None:
    transaction = app.transaction(0)
    transaction.write(app.topic, app.outputs(["a", "b"]))
    transaction._producer.flush(30)
    transaction.begin_again()
    transaction.write(app.topic, app.outputs(["b"]))
    transaction.commit(b"{}")
    assert app.seen() == ["b"]


def test_a_transaction_may_begin_again_while_records_are_on_their_way(app: App) -> None:
    topic = f"{app.plan.app}-large"
    app.broker.create_topic(topic, 1)
    transaction = app.transaction(0)
    outputs = app.outputs([f"{number}{'x' * 1000}" for number in range(20_000)])
    for _ in range(2):
        transaction.write(topic, outputs)
        transaction.begin_again()
    transaction.write(topic, outputs)
    transaction.commit(b"{}")
    assert len(list(read_topic(app.plan.kafka, topic))) == len(outputs)


def test_a_refusal_by_the_broker_is_raised_in_its_words_and_undone(app: App) -> None:
    transaction = app.transaction(0, plan=replace(app.plan, rules={}))
    transaction.write(app.topic, app.outputs(["a", "x" * 30_000]))
    with pytest.raises(BrokerRefusedError, match="MSG_SIZE_TOO_LARGE"):
        transaction.commit(b"{}")
    transaction.abandon()
    assert app.seen() == []


def test_a_later_write_raises_the_refusal_of_an_earlier_record(app: App) -> None:
    transaction = app.transaction(0, plan=replace(app.plan, rules={}))
    transaction.write(app.topic, app.outputs(["a", "x" * 30_000]))
    transaction._producer.flush(30)
    with pytest.raises(BrokerRefusedError, match="MSG_SIZE_TOO_LARGE"):
        transaction.write(app.topic, app.outputs(["b"]))
    transaction.abandon()
    assert app.seen() == []


def test_a_changelog_with_new_partitions_takes_nothing_of_an_open_transaction(app: App) -> None:
    log = f"{app.plan.app}-out"
    transaction = app.transaction(0, plan=replace(app.plan, partitions={log: 2}))
    assert transaction.change(log, [], [StoreChange("rows", b"k", b"v", 0)]) == 1
    app.broker.add_partitions(log, 3)
    with pytest.raises(PartitionsChangedError, match=f"topic {log} has 3 partitions, .* made with 2"):
        transaction.commit(b"{}")
    transaction.abandon()
    assert app.seen() == []


def test_a_changelog_that_was_deleted_meanwhile_is_named_and_is_no_change_of_partitions(app: App) -> None:
    log = f"{app.plan.app}-dlq"
    transaction = app.transaction(0, plan=replace(app.plan, partitions={log: 1}))
    transaction.write(app.topic, app.outputs(["a"]))
    app.broker.delete_topic(log)
    with pytest.raises(BrokerRefusedError, match=rf"UNKNOWN_TOPIC_OR_PART: .* \(topic {log}\)"):
        transaction.commit(b"{}")
    transaction.abandon()
    assert app.seen() == []


def test_a_record_of_1970_keeps_its_time(app: App) -> None:
    transaction = app.transaction(0)
    topic = f"{app.plan.app}-dlq"  # it has one partition
    transaction.write(topic, ((b"k", b"v", timestamp_ms, ()) for timestamp_ms in (5, 1, 0)))
    transaction.commit(b"{}")
    # To Kafka's C client 0 means now: a millisecond later is nearer the truth.
    assert [message.timestamp()[1] for message in app.committed("dlq")] == [5, 1, 1]


def test_each_change_carries_its_own_trace(app: App) -> None:
    topic = f"{app.plan.app}-dlq"
    transaction = app.transaction(0)
    changes = [
        StoreChange("s", b"a", b"1", 1, TRACE),
        StoreChange("s", b"b", None, 2, TRACE),
        StoreChange("s", b"c", b"3", 3),
    ]
    transaction.change(topic, [("batch-id", b"0")], changes)
    transaction.commit(b"{}")
    found = {message.key(): message.headers() for message in app.committed("dlq")}
    with_trace = [("batch-id", b"0"), (TRACEPARENT, TRACE)]
    assert found == {b"a": with_trace, b"b": with_trace, b"c": [("batch-id", b"0"), ("changes", b"3")]}


def test_the_last_change_of_a_batch_says_how_many_all_batches_have_written(app: App) -> None:
    """Not those of an attempt that is begun again, and those of batches without a change, too."""
    topic, other = f"{app.plan.app}-dlq", f"{app.plan.app}-out"
    for batch, keys in enumerate(["ab", "", "cde", "f"]):
        transaction = app.transaction(batch)
        transaction.change(topic, [], [StoreChange("s", b"x", b"", 1)])
        transaction.change(other, [], [StoreChange("s", b"x", b"", 1)])
        transaction.begin_again()
        if keys:
            transaction.change(topic, [], [StoreChange("s", key.encode(), b"", 1) for key in keys])
        transaction.commit(b"{}")
    found = {message.key(): message.headers() for message in app.committed("dlq")}
    said = {key: value for key, headers in found.items() for _, value in headers or ()}
    assert said == {b"b": b"2", b"e": b"5", b"f": b"6"}
    marker = app.transaction(4).committed
    assert marker is not None
    assert marker.changes == {topic: 6}
