"""A topology in the test driver: types, dead letters, processors, timers, partitions."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from storekeeper.errors import InvalidArgumentError, UnknownStoreError
from storekeeper.topology import (
    CrashStep,
    DropReason,
    ProcessorContext,
    Store,
    StoreKind,
    StreamsBuilder,
    TimeKind,
    TopologyTestDriver,
    sessions,
    tumbling,
    until_window_closes,
    with_key,
)


class Invoice(msgspec.Struct, frozen=True):
    card: str
    amount: Decimal


class Spent(msgspec.Struct, frozen=True):
    total: Decimal = Decimal(0)

    @classmethod
    def nothing(cls) -> Spent:
        return cls()

    def plus(self, invoice: Invoice) -> Spent:
        return Spent(self.total + invoice.amount)


def spending() -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    invoices = streams.stream("pos", Invoice)
    spent = invoices.select_key(lambda _, invoice: invoice.card).group_by_key()
    table = spent.aggregate(Spent.nothing, Spent.plus, store=Store("spent", Spent))
    names = streams.table("names", str)

    def greeting(spent: Spent, name: str | None) -> str:
        return f"{name or 'somebody'} spent {spent.total}"

    table.to_stream().left_join(names, greeting).to("greetings")
    return TopologyTestDriver(streams.build(), {"pos": 3, "names": 4})


def test_money_stays_exact_over_repartition_store_and_join() -> None:
    driver = spending()
    driver.pipe("names", "7", "Ada", 1)
    for amount in ("0.10", "0.20"):
        driver.pipe("pos", None, Invoice("7", Decimal(amount)), 2)
    assert driver.rows("spent") == [("7", Spent(Decimal("0.30")))]
    assert [record.value for record in driver.read("greetings")] == ["Ada spent 0.10", "Ada spent 0.30"]
    assert driver.read("greetings") == []


def test_what_does_not_decode_is_a_dead_letter_with_its_place() -> None:
    driver = spending()
    driver.append_bytes("pos", b"key", b'{"card": 7}', partition=2)
    driver.pipe("pos", None, Invoice("7", Decimal(1)), 2, partition=2)
    (letter,) = driver.dead_letters
    assert (letter.record.topic, letter.record.partition, letter.record.offset) == ("pos", 2, 0)
    assert (letter.record.key, letter.record.value) == (b"key", b'{"card": 7}')
    assert "Invoice" in letter.reason
    assert driver.rows("spent") == [("7", Spent(Decimal(1)))]


def test_an_error_of_a_function_says_which_record_it_was() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).map_values(lambda value: 1 // value, values=int).to("out")
    driver = TopologyTestDriver(streams.build(), on_error="fail")
    with pytest.raises(ZeroDivisionError) as raised:
        driver.pipe("in", "a", 0)
    assert raised.value.__notes__ == ["in operator in.map-values", "while in[0]@0 was processed"]


class Leaving:
    """Leaves every record out."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.context.drop(DropReason.EXPIRED_WINDOW)


def test_a_processor_counts_what_it_leaves_out() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).process_values(Leaving, values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1)
    driver.pipe("in", "a", 2)
    assert driver.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 2


def test_a_row_that_is_older_than_the_history_is_counted() -> None:
    streams = StreamsBuilder("app")
    streams.table("in", int, store=Store("rows", int, history=timedelta(milliseconds=10)))
    driver = TopologyTestDriver(streams.build())
    for timestamp_ms in (20, 10, 9):
        driver.pipe("in", "a", timestamp_ms, timestamp_ms)
    assert driver.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 1


class Reminder:
    """Sends what came in the last interval, by either clock."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self.context = context
        self.seen = context.store("seen")
        context.schedule(10, TimeKind.STREAM_TIME, lambda now_ms: self.send("stream", now_ms))
        context.schedule(1000, TimeKind.WALL_CLOCK, lambda now_ms: self.send("wall", now_ms - self.started_ms))
        self.started_ms = 1_700_000_000_000

    def process(self, key: str, value: int, timestamp_ms: int) -> None:
        self.seen.put(key, (self.seen.get(key) or 0) + value)

    def send(self, clock: str, now_ms: int) -> None:
        total = sum(value for _, value in self.seen.all())
        self.context.forward(f"{clock} {now_ms}", total)


def reminding() -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    streams.add_store(Store("seen", int))
    streams.stream("in", int).process(Reminder, stores=["seen"], values=int).to("out")
    return TopologyTestDriver(streams.build())


def test_a_processor_with_a_store_and_timers_of_both_clocks() -> None:
    driver = reminding()
    driver.pipe("in", "a", 1, 100)
    driver.pipe("in", "a", 2, 105)
    driver.pipe("in", "a", 4, 131)
    assert [record[:2] for record in driver.read("out")] == [("stream 100", 1), ("stream 131", 7)]
    driver.advance(999)
    assert driver.read("out") == []
    driver.advance(1)
    assert [record[:2] for record in driver.read("out")] == [("wall 1000", 7)]
    assert driver.rows("seen") == [("a", 7)]


def test_a_processor_may_use_its_own_stores_only() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).process(Reminder, values=int).to("out")
    with pytest.raises(UnknownStoreError, match="stores="):
        TopologyTestDriver(streams.build())


def test_stores_of_every_kind_for_processors() -> None:
    streams = StreamsBuilder("app")
    times = {StoreKind.WINDOW: "retention", StoreKind.SESSION: "retention", StoreKind.VERSIONED: "history"}
    times[StoreKind.TTL] = "ttl"
    for kind in StoreKind:
        options: Any = {times[kind]: timedelta(hours=1)} if kind in times else {}
        streams.add_store(Store(f"s-{kind}", int, kind=kind, **options))

    class Writer:
        def init(self, context: ProcessorContext[str, int]) -> None:
            self.store = {kind: context.store(f"s-{kind}") for kind in StoreKind}

        def process(self, key: str, value: int, timestamp_ms: int) -> None:
            self.store[StoreKind.KEY_VALUE].put(key, value)
            self.store[StoreKind.WINDOW].put(key, value, timestamp_ms)
            self.store[StoreKind.SESSION].put(key, timestamp_ms, timestamp_ms, value)
            self.store[StoreKind.VERSIONED].put(key, value, timestamp_ms)
            self.store[StoreKind.TTL].put(key, value, timestamp_ms)

    streams.stream("in", int).process(Writer, stores=[f"s-{kind}" for kind in StoreKind], values=int)
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 5, 7)
    assert driver.store("s-window").fetch_one("a", 7) == 5
    assert driver.store("s-session").fetch_session("a", 7, 7) == 5
    assert driver.store("s-versioned").get("a", 8).value == 5
    assert driver.store("s-ttl").get("a") == 5


def test_records_of_several_topics_are_taken_by_time() -> None:
    streams = StreamsBuilder("app")
    one, two = streams.stream("one", int), streams.stream("two", int)
    one.merge(two).to("out")
    driver = TopologyTestDriver(streams.build())
    for topic, value, timestamp_ms in (("one", 1, 10), ("one", 2, 30), ("two", 3, 5), ("two", 4, 20)):
        driver.append(topic, "a", value, timestamp_ms)
    driver.run()
    assert [record.value for record in driver.read("out")] == [3, 1, 4, 2]


def test_windowed_keys_can_be_written_and_read() -> None:
    streams = StreamsBuilder("app")
    windows = streams.stream("in", int).group_by_key().windowed_by(tumbling(timedelta(hours=1)))
    windows.count().to_stream().map_values(with_key(lambda key, count: count), values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 5)
    assert driver.read("out") == [(("a", 0, 3_600_000), 1, 5)]


def test_a_topic_that_is_not_read_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="does not read 'else'"):
        spending().pipe("else", "a", 1)


def counted(options: Store[int]) -> TopologyTestDriver:
    streams = StreamsBuilder("app")
    streams.stream("in", int).group_by_key().count(store=options).to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    for timestamp_ms, key in enumerate("aab"):
        driver.append("in", key, 1, timestamp_ms)
    driver.run()
    return driver


def test_without_caching_every_update_goes_on() -> None:
    assert counted(Store("counts", int)).read("out") == [("a", 1, 0), ("a", 2, 1), ("b", 1, 2)]


def test_with_caching_the_last_update_of_a_batch_goes_on() -> None:
    assert counted(Store("counts", int, caching=True)).read("out") == [("a", 2, 1), ("b", 1, 2)]


def test_with_caching_a_row_that_comes_and_goes_in_one_batch_gives_no_change() -> None:
    streams = StreamsBuilder("app")
    streams.table("in", int, store=Store("rows", int, caching=True)).to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "kept", 1, 0)
    for key, value in [("gone", 1), ("gone", None), ("kept", None)]:
        driver.append("in", key, value, 1)
    driver.run()
    assert driver.read("out") == [("kept", 1, 0), ("kept", None, 1)]


def test_a_store_without_logging_has_no_changelog() -> None:
    driver = counted(Store("counts", int, logging=False))
    assert driver.changelog("counts") == []
    assert driver.rows("counts") == [("a", 2), ("b", 1)]


def test_tables_of_windows_are_derived_joined_and_suppressed() -> None:
    streams = StreamsBuilder("app")
    window = tumbling(timedelta(hours=1))
    numbers = streams.stream("in", int).group_by_key().windowed_by(window)
    counts, sums = numbers.count(), numbers.reduce(lambda one, two: one + two)
    busy = counts.filter(lambda _, count: count > 1, store="busy")
    means = busy.join(sums, lambda count, total: total / count, values=float, store=Store("means", float))
    means.suppress(until_window_closes(window)).to_stream().to("out")
    driver = TopologyTestDriver(streams.build())
    for value, timestamp_ms in ((1, 0), (4, 1), (7, 3_600_000)):
        driver.pipe("in", "a", value, timestamp_ms)
    assert driver.read("out") == []
    driver.pipe("in", "a", 1, 3_600_001)
    assert driver.read("out") == [(("a", 0, 3_600_000), 2.5, 1)]
    assert driver.rows("means")[0] == (("a", 0, 3_600_000), 2.5)


def test_rows_that_expire_leave_the_changelog_whichever_batch_wrote_them() -> None:
    hour_ms = 3_600_000
    for batches in (1, 2, 5):
        streams = StreamsBuilder("app")
        grouped = streams.stream("in", int).group_by_key()
        for kind in ("windows", "sessions"):
            windows = tumbling(timedelta(hours=1)) if kind == "windows" else sessions(timedelta(hours=1))
            grouped.windowed_by(windows).count(store=Store(kind, int, retention=timedelta(hours=2)))
        driver = TopologyTestDriver(streams.build())
        for number in range(10):
            driver.append("in", "a", 1, number * 10 * hour_ms)
            if number % (10 // batches) == 10 // batches - 1:
                driver.run()
        for kind in ("windows", "sessions"):
            left = [key for key, value in dict(driver.changelog(kind)).items() if value is not None]
            assert len(left) == len(driver.rows(kind)) == 1, (kind, batches)


def test_headers_come_in_and_go_out() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).map_values(lambda value: value + 1, values=int).to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 5, headers=[("who", b"me")])
    [record] = driver.read("out")
    assert (record, record.headers) == (("a", 2, 5), [("who", b"me")])
    key, value, timestamp_ms = record
    assert (key, value, timestamp_ms) == ("a", 2, 5)


def test_headers_pass_a_repartition() -> None:
    streams = StreamsBuilder("app")
    streams.stream("in", int).repartition(topic="by-topic").to("out")
    driver = TopologyTestDriver(streams.build())
    driver.pipe("in", "a", 1, 5, headers=[("who", b"me")])
    [record] = driver.read("out")
    assert record.headers == [("who", b"me")]


@pytest.mark.parametrize("wrong", ["text", Spent(Decimal(1)), {"card": 7}])
def test_a_value_of_another_type_is_refused_when_it_is_piped(wrong: object) -> None:
    driver = spending()
    with pytest.raises(InvalidArgumentError, match=r"topic pos can't have the value .*append_bytes"):
        driver.pipe("pos", "7", wrong)
    with pytest.raises(InvalidArgumentError, match="topic pos can't have the key 7"):
        driver.pipe("pos", 7, Invoice("7", Decimal(1)))
    assert driver.dead_letters == []


def test_an_unknown_store_or_partition_is_named() -> None:
    driver = spending()
    with pytest.raises(UnknownStoreError, match=r"there is no store 'cc', only .*'spent'"):
        driver.store("cc")
    with pytest.raises(InvalidArgumentError, match="store spent has partitions 0 to 3, not 4"):
        driver.store("spent", 4)


def test_a_global_table_is_there_after_a_crash() -> None:
    for step in CrashStep:
        streams = StreamsBuilder("app")
        rates = streams.global_table("rates", int)
        streams.stream("in", int).join(rates, lambda one, two: one + two, on=lambda key, _: key, values=int).to("out")
        driver = TopologyTestDriver(streams.build())
        driver.crash_at(step)
        driver.pipe("rates", "a", 1, 0)
        driver.pipe("in", "a", 2, 1)
        assert driver.read("out") == [("a", 3, 1)], step


def test_rows_of_a_versioned_store_are_the_latest() -> None:
    streams = StreamsBuilder("app")
    streams.table("in", int, store=Store("versions", int, history=timedelta(hours=1)))
    driver = TopologyTestDriver(streams.build())
    rows = [("b", 1, 5), ("b", 2, 9), ("b", 3, 7), ("a", 1, 5), ("gone", 1, 5), ("gone", None, 6)]
    for key, value, timestamp_ms in rows:
        driver.append("in", key, value, timestamp_ms)
    assert driver.rows("versions") == []
    driver.run()
    assert driver.rows("versions") == [("a", 1), ("b", 2)]
    assert driver.store("versions").get("b", 7).value == 3


def test_a_batch_is_merged_by_time_behind_a_shuffle_as_on_spark() -> None:
    streams = StreamsBuilder("app")
    by_value = streams.stream("in", int).group_by(lambda _, value: str(value % 2))
    by_value.windowed_by(tumbling(timedelta(milliseconds=10))).count(
        store=Store("counts", int, retention=timedelta(hours=1))
    )
    driver = TopologyTestDriver(streams.build(), {"in": 4})
    for timestamp_ms in range(200):
        driver.append("in", f"key-{timestamp_ms % 13}", timestamp_ms, timestamp_ms)
    driver.run()
    assert driver.dropped.total == 0
    assert sum(count for _, count in driver.rows("counts")) == 200
