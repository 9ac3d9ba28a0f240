"""Records that operators fail on, on real Spark and Kafka: in the result or in the dead letters, once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import orjson
import pytest
import structlog.testing

from harness.broker import Broker
from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.engine.runtime.batch_query import ProcessBatch
from storekeeper.errors import RecordFailedError
from tests.engine import topologies
from tests.engine.spark_run import SparkRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.broker]

TOPICS = {"bad-numbers": 2, "bad-own": 1, "bad-copies": 1, "bad-texts": 1, "bad-texts-out": 1}
BAD = {0: "ZeroDivisionError", 7: "ValueError", 13: "LookupError", 17: "ValueError", 950: "FutureTimestampError"}


@pytest.fixture
def run(broker: Broker, spark_session: SparkSession, tmp_path: Path) -> SparkRun:
    found = SparkRun("bad", topologies.with_bad_records, broker, spark_session, tmp_path)
    found.make_topics(TOPICS)
    return found


class DeadError(Exception):
    """The driver dies."""


def dying(process: ProcessBatch) -> ProcessBatch:
    """Dies when all tasks have committed, and before the batch counts as done."""

    def run(batch_id: int) -> None:
        process(batch_id)
        raise DeadError

    return run


def produce(run: SparkRun, numbers: range | list[int]) -> None:
    records = [(b"k%d" % (number % 5), b"%d" % number, 1_700_000_000_000) for number in numbers]
    run.produce("bad-numbers", records, headers=[("user", b"u")])


def in_source(broker: Broker) -> Iterator[tuple[int | None, int | None, bytes | None]]:
    """Partition, offset and value of the records in the topic."""
    for message in read_topic(broker.kafka, "bad-numbers"):
        yield message.partition(), message.offset(), message.value()


def test_each_record_is_in_the_result_or_in_the_dead_letters_once(run: SparkRun, broker: Broker) -> None:
    numbers = [*range(20), 950, 20, 21]
    produce(run, numbers[:10])
    with pytest.raises(DeadError):
        run.run(dying)
    run.run()  # the tasks have committed: they pass the same records on again
    produce(run, numbers[10:])
    with structlog.testing.capture_logs() as lines:
        run.run()
    told = {line["error"]: (line["topic"], line["count"]) for line in lines if line["event"] == "dead_letters"}
    assert told == {error: ("bad-numbers", 1) for number, error in BAD.items() if number in numbers[10:]}
    good = [number for number in numbers if number not in BAD]
    assert sorted(int(value or b"") for _, _, value, _ in run.records("bad-copies")) == sorted([*good, 13])
    own = {key: orjson.loads(row)["total"] for key, row in run.rows("bad-own-changelog").items()}
    assert own == {b"k%d" % n: sum(m for m in [*good, 13] if m % 5 == n) for n in range(5)}
    quotients = {key: orjson.loads(row)["total"] for key, row in run.rows("bad-quotients-changelog").items()}
    wanted: dict[bytes, int] = {}
    for number in good:
        key = b"%d" % (100 // number % 10)
        wanted[key] = wanted.get(key, 0) + number
    assert quotients == wanted
    letters = {int(message.value() or b""): dict(message.headers()) for message in read_topic(broker.kafka, "bad-dlq")}
    assert {number: found["dlq.error.class"].decode() for number, found in letters.items()} == BAD
    assert len(run.records("bad-dlq")) == len(BAD)
    assert {found["user"] for found in letters.values()} == {b"u"}
    operators = {number: found["dlq.operator"].decode() for number, found in letters.items()}
    assert operators[7] == "bad-numbers.peek"
    assert operators[950] == "bad-numbers"
    assert letters[7]["dlq.topic"] == b"bad-numbers"
    assert letters[13]["dlq.topic"] == b"bad-numbers"
    assert letters[13]["dlq.repartition"].endswith(b"repartition")
    places = {int(value or b""): (partition, offset) for partition, offset, value in in_source(broker)}
    for number, found in letters.items():
        assert (int(found["dlq.partition"]), int(found["dlq.offset"])) == places[number]
    assert letters[7]["dlq.error.message"].startswith(b"ValueError at engine/topologies.py:")
    assert letters[7]["dlq.error.message"].endswith(b" in _not_7")


def test_a_bad_record_far_ahead_makes_no_other_of_its_batch_late(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("held", topologies.held_up, broker, spark_session, tmp_path)
    run.make_topics({"held-numbers": 2, "held-out": 1})
    hour_ms, began_ms = 3_600_000, 1_700_000_000_000
    run.produce("held-numbers", [(b"a", b"13", began_ms + hour_ms)], partition=0)
    seconds = range(20)
    for partition in (0, 1):
        numbers = [(b"a", b"%d" % (partition + 1), began_ms + 1000 * second) for second in seconds]
        run.produce("held-numbers", numbers, partition=partition)
    run.run()
    newest = {time_ms: value for _, _, value, time_ms in run.records("held-out")}
    assert newest == {began_ms + 1000 * second: b"3" for second in seconds}
    [letter] = read_topic(broker.kafka, "held-dlq")
    assert letter.value() == b"13"
    found = dict(letter.headers())
    assert (found["dlq.topic"], found["dlq.partition"], found["dlq.offset"]) == (b"held-numbers", b"0", b"0")


def test_a_dead_letter_behind_a_topic_names_the_record_that_it_comes_from(
    broker: Broker, spark_session: SparkSession, tmp_path: Path
) -> None:
    run = SparkRun("reviewed", topologies.reviewed, broker, spark_session, tmp_path)
    run.make_topics({"reviewed-numbers": 2, "reviewed-more": 1})
    for partition in (0, 1):
        run.produce("reviewed-numbers", [(b"a", b"%d" % number, 1) for number in range(3)], partition=partition)
    run.produce("reviewed-numbers", [(b"b", b"13", 1)], partition=1)
    run.produce("reviewed-more", [(b"b", b"13", 1)])
    run.run()
    run.run()
    places = {tuple(dict(letter.headers())[f"dlq.{name}"] for name in ("topic", "partition", "offset"))
              for letter in read_topic(broker.kafka, "reviewed-dlq")}  # fmt: skip
    assert places == {(b"reviewed-numbers", b"1", b"3"), (b"reviewed-more", b"0", b"0")}


def test_an_app_that_is_to_fail_names_the_line_and_the_record(run: SparkRun) -> None:
    object.__setattr__(run.context.spec, "on_error", "fail")
    produce(run, [1, 2, 7])
    told = r"ValueError at engine/topologies.py:\d+ in _not_7, in operator bad-numbers.peek, while bad-numbers\[\d\]@\d"
    with pytest.raises(RecordFailedError, match=told):
        run.run()
    assert run.records("bad-copies") == []


def test_records_of_a_batch_come_in_parts(run: SparkRun, spark_session: SparkSession) -> None:
    spark_session.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "3")
    try:
        produce(run, range(1, 20))
        run.run()
    finally:
        spark_session.conf.unset("spark.sql.execution.arrow.maxRecordsPerBatch")
    copies = sorted(int(value or b"") for _, _, value, _ in run.records("bad-copies"))
    assert copies == [number for number in range(1, 20) if number not in {7, 17}]
    assert len(run.records("bad-dlq")) == 3


def test_a_row_that_its_changelog_would_refuse_is_left_out(run: SparkRun, broker: Broker) -> None:
    texts = [b"a", b"b" * 700_000, b"c"]
    run.produce("bad-texts", [(b"k%d" % at, text, 1_700_000_000_000) for at, text in enumerate(texts)])
    run.run()
    assert run.rows("bad-texts-changelog") == {b"k0": b"aa", b"k2": b"cc"}
    [letter] = read_topic(broker.kafka, "bad-dlq")
    headers = dict(letter.headers())
    assert (headers["dlq.topic"], headers["dlq.offset"]) == (b"bad-texts", b"1")
    assert headers["dlq.error.class"] == b"RefusedChangeError"
