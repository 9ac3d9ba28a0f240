from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from spark_apps.loyalty.migrations import REWARDS_SPLIT

from spark_apps.engine.topic_rules import BY_KEY, SinkRecord
from spark_apps.generations.errors import GenerationRefusedError, UnconvertibleRowsError
from spark_apps.generations.journal import Generation, GenerationState
from spark_apps.generations.outputs import as_generation
from spark_apps.records.loyalty import rewards_value

TOPIC = "loyalty-rewards-changelog-g2"
HEADERS = [("batch-id", b"7")]
BY_LETTER, BY_HALF = (f"tests.integration.counted_app:{name}" for name in ("BY_LETTER", "BY_HALF"))
NOTE: SinkRecord = ("loyalty", b"4629", b"{}", None, BY_KEY)
ROW: SinkRecord = (TOPIC, b"4629", rewards_value("4629", 123_456, 3, 1_500), HEADERS, BY_KEY)


def written(_: Iterator[Any]) -> Iterator[SinkRecord]:
    yield NOTE
    yield ROW


def odd(_: Iterator[Any]) -> Iterator[SinkRecord]:
    yield TOPIC, b"4629", b'{"secret": 7}', HEADERS, BY_KEY


def generation(*migrations: str, heard_from: int | None = 8) -> Generation:
    outputs = () if heard_from is None else ((heard_from, None),)
    return Generation(2, GenerationState.STARTED, {"rewards": TOPIC}, origin=1, migrations=migrations, outputs=outputs)


def test_a_batch_that_is_not_its_own_to_tell_of_changes_only_the_store() -> None:
    assert list(as_generation(written, generation(), 7)(iter(()))) == [ROW]
    assert list(as_generation(written, generation(heard_from=None), 7)(iter(()))) == [ROW]


def test_nothing_stands_between_where_there_is_nothing_to_change() -> None:
    assert as_generation(written, None, 7) is written
    assert as_generation(written, generation(), 8) is written


def test_a_row_is_converted_and_keeps_its_headers() -> None:
    note, row = as_generation(written, generation("rewards-tier", "rewards-by-region"), 8)(iter(()))
    assert note == NOTE
    value = (
        b'{"CustomerCardNo":"4629","Tier":"BRONZE","TotalLoyaltyPointsCents":1234,"HundredthsOfCent":56,'
        b'"InvoiceCount":3,"LastInvoiceTime":1500}'
    )
    assert row == (TOPIC, b"south|4629", value, HEADERS, BY_KEY)


def test_a_row_that_cannot_be_converted_stops_the_batch_without_being_quoted() -> None:
    with pytest.raises(UnconvertibleRowsError, match=r"ValidationError in rewards-tier\)$") as caught:
        list(as_generation(odd, generation("rewards-tier"), 8)(iter(())))
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_rows_of_a_store_that_was_split_go_to_their_own_changelogs_under_their_own_name() -> None:
    names = ("rewards-tier", "rewards-by-region", "rewards-split")
    parts = {store: f"loyalty-{store}-changelog-g2" for store in REWARDS_SPLIT.stores}
    apart = replace(generation(*names), topics={"rewards": parts["rewards-north"]}, parts=parts)

    def of_two(_: Iterator[Any]) -> Iterator[SinkRecord]:
        headers = [("store", b"rewards"), ("batch-id", b"7")]
        for card in ("4629", "4610"):
            yield apart.topics["rewards"], card.encode(), rewards_value(card, 1, 1, 1), headers, BY_KEY

    south, east = as_generation(of_two, apart, 8)(iter(()))
    assert (south[0], south[1]) == (parts["rewards-south"], b"4629")
    assert south[3] == [("store", b"rewards-south"), ("batch-id", b"7")]
    assert (east[0], east[3]) == (parts["rewards-east"], [("store", b"rewards-east"), ("batch-id", b"7")])
    assert next(iter(as_generation(written, apart, 8)(iter(())))) == NOTE


def test_a_deletion_goes_where_its_row_went() -> None:
    parts = {store: f"counted-{store}-changelog-g2" for store in ("low", "high")}
    apart = replace(generation(BY_HALF), topics={"sums": parts["low"]}, parts=parts)

    def deleted(_: Iterator[Any]) -> Iterator[SinkRecord]:
        yield parts["low"], b"x9", None, [("store", b"sums")], BY_KEY

    together = as_generation(deleted, replace(apart, parts={}, migrations=(BY_LETTER,)), 8)
    assert list(together(iter(()))) == [(parts["low"], b"x|x9", None, [("store", b"sums")], BY_KEY)]
    assert list(as_generation(deleted, apart, 8)(iter(()))) == [
        (parts["high"], b"x|x9", None, [("store", b"high")], BY_KEY)
    ]


def test_a_deletion_whose_new_key_nobody_tells_stops_the_batch() -> None:
    def deleted(_: Iterator[Any]) -> Iterator[SinkRecord]:
        yield TOPIC, b"4629", None, HEADERS, BY_KEY

    with pytest.raises(UnconvertibleRowsError, match="migration rewards-by-region doesn't say by `convert_key`"):
        list(as_generation(deleted, generation("rewards-tier", "rewards-by-region"), 8)(iter(())))
    assert list(as_generation(deleted, generation("rewards-tier"), 8)(iter(()))) == [
        (TOPIC, b"4629", None, HEADERS, BY_KEY)
    ]


@pytest.mark.parametrize("parts", [{}, {"rewards-north": TOPIC, "rewards-there": "other"}])
def test_a_generation_whose_split_is_declared_otherwise_by_now_writes_nothing(parts: dict[str, str]) -> None:
    apart = replace(generation("rewards-tier", "rewards-by-region", "rewards-split"), parts=parts)
    with pytest.raises(GenerationRefusedError, match="put them back as they were"):
        as_generation(written, apart, 8)


def test_rows_of_each_store_go_through_the_changes_of_that_store() -> None:
    topics = {"sums": "counted-sums-changelog-g2", "tens": "counted-tens-changelog-g2"}
    changes = tuple(f"tests.integration.counted_app:{name}" for name in ("BY_LETTER", "WITH_FULL"))

    def of_both(_: Iterator[Any]) -> Iterator[SinkRecord]:
        yield topics["tens"], b"window", b'{"Events":10}', HEADERS, 3
        yield topics["sums"], b"x9", b'{"Sum":4}', HEADERS, BY_KEY

    both = replace(generation(*changes), topics=topics)
    assert list(as_generation(of_both, both, 8)(iter(()))) == [
        (topics["tens"], b"window", b'{"Events":10,"Full":true}', HEADERS, 3),
        (topics["sums"], b"x|x9", b'{"Sum":4,"Even":true}', HEADERS, BY_KEY),
    ]
