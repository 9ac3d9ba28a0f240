"""Every query of both clients, answered by the nodes' own routes on three nodes."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import Any

import pytest

from storekeeper.client.readings import Rank, SessionRow, VersionRow, WindowedRow
from storekeeper.errors import InvalidArgumentError, StateError, UnknownStoreError
from tests.client.both import Awaiting, Blocking
from tests.client.served_cluster import (
    BEGAN_MS,
    HOUR_MS,
    POINTS_WITH_DIGITS,
    REWARDS,
    SCORES,
)


def test_one_key(asking: Blocking | Awaiting) -> None:
    found = asking.call(lambda client: client.key_value("rewards").get("card-07"))
    assert found.value == REWARDS["card-07"]
    assert found.served_by in {"a", "b", "c"}
    assert found.role in {"active", "standby"}
    assert found.partition in range(12)
    assert found.offset >= 1
    assert (found.offset_lag, found.complete) == (0, True)
    assert found.position
    missing = asking.call(lambda client: client.key_value("rewards").get("nobody"))
    assert missing.value is None


@pytest.mark.parametrize("key", ["käse/brot", "käse/brot".encode()])
def test_numbers_keep_their_digits_and_keys_arrive_as_they_are(asking: Blocking | Awaiting, key: str | bytes) -> None:
    found = asking.call(lambda client: client.key_value("rewards").get(key))
    assert found.value == {"Points": POINTS_WITH_DIGITS}
    assert str(found.value["Points"]) == "12.0300"


def test_keys_that_are_no_text(asking: Blocking | Awaiting) -> None:
    assert asking.call(lambda client: client.key_value("rewards").get(b"\xff\x00")).value == 7
    rows = asking.rows(lambda client: client.key_value("rewards").range(b"\xff", b"\xff\xff"))
    assert rows == [(b"\xff\x00", 7)]


def test_many_keys_in_one_request(asking: Blocking | Awaiting) -> None:
    keys = ["card-30", "nobody", b"\xff\x00", "card-07", "card-30", "käse/brot"]
    found = asking.call(lambda client: client.key_value("rewards").get_many(keys))
    assert list(found.value) == ["card-30", "nobody", b"\xff\x00", "card-07", "käse/brot"]
    assert found.value["card-30"] == REWARDS["card-30"]
    assert found.value["nobody"] is None
    assert found.value[b"\xff\x00"] == 7
    assert found.complete
    assert asking.call(lambda client: client.key_value("rewards").get_many([])).value == {}


def test_rows_forwards_and_backwards_over_pages(asking: Blocking | Awaiting) -> None:
    expected = list(REWARDS.items())
    cards = asking.rows(lambda client: client.key_value("rewards").prefix_scan("card-", page_rows=7))
    assert cards == expected
    some = asking.rows(lambda client: client.key_value("rewards").range("card-05", "card-15", page_rows=3))
    assert some == expected[5:16]
    back = asking.rows(lambda client: client.key_value("rewards").reverse_range("card-05", "card-15", page_rows=3))
    assert back == some[::-1]
    everything = asking.rows(lambda client: client.key_value("rewards").all(page_rows=9))
    assert [row.key for row in everything] == [*REWARDS, "käse/brot", b"\xff\x00"]
    assert asking.rows(lambda client: client.key_value("rewards").reverse_all(page_rows=9)) == everything[::-1]
    assert asking.rows(lambda client: client.key_value("rewards").range("x", "c")) == []


def test_ranks(asking: Blocking | Awaiting) -> None:
    top = asking.call(lambda client: client.ranked("players").top(3)).value
    assert [(row.rank, row.key, row.score) for row in top] == [(1, "anna", 900), (2, "ben", 700), (2, "cleo", 700)]
    assert top[0].value == {"Score": SCORES["anna"]}
    assert asking.call(lambda client: client.ranked("players").rank("dan")).value == Rank(4, "dan", 100, 4)
    assert asking.call(lambda client: client.ranked("players").rank("nobody")).value is None
    middle = asking.call(lambda client: client.ranked("players").scores(100, 700)).value
    assert [row.key for row in middle] == ["ben", "cleo", "dan"]
    assert asking.call(lambda client: client.ranked("players").get("ben")).value == {"Score": 700}


def test_windows(asking: Blocking | Awaiting) -> None:
    later = BEGAN_MS + HOUR_MS
    rows = asking.rows(lambda client: client.window("sales").fetch("s1", BEGAN_MS, later))
    assert rows == [WindowedRow("s1", BEGAN_MS, {"Total": 0}), WindowedRow("s1", later, {"Total": 1})]
    rows = asking.rows(lambda client: client.window("sales").fetch("all", later, later))
    assert rows == [WindowedRow("all", later, {"Total": 1})], "a key may be named as the path's own words are"
    rows = asking.rows(lambda client: client.window("sales").fetch_all(later, later, page_rows=2))
    assert sorted(row.key for row in rows) == ["all", "s1", "s2"]


def test_sessions(asking: Blocking | Awaiting) -> None:
    one = SessionRow("u1", BEGAN_MS, BEGAN_MS + 60_000, {"Clicks": 3})
    assert asking.rows(lambda client: client.session("visits").find_sessions("u1")) == [one]
    named = asking.rows(lambda client: client.session("visits").find_sessions("active"))
    assert [row.key for row in named] == ["active"]
    assert asking.rows(lambda client: client.session("visits").find_sessions("u1", BEGAN_MS + 60_001)) == []
    ended = asking.rows(lambda client: client.session("visits").ended(BEGAN_MS, BEGAN_MS + 60_000, page_rows=2))
    assert sorted(row.key for row in ended) == ["active", "u1", "u2"]
    at_ms = BEGAN_MS + 70_000
    assert len(asking.rows(lambda client: client.session("visits").active(at_ms, 10_000))) == 3
    assert asking.rows(lambda client: client.session("visits").active(at_ms, 9_999)) == []


def _shoes(as_of: int | None, client: Any) -> Any:
    return client.versioned("prices").get("shoes", as_of)


def test_versions(asking: Blocking | Awaiting) -> None:
    first = VersionRow("shoes", 3, BEGAN_MS, BEGAN_MS + HOUR_MS)
    third = VersionRow("shoes", Decimal("4.25"), BEGAN_MS + 2 * HOUR_MS, BEGAN_MS + 3 * HOUR_MS)
    newest = VersionRow("shoes", 5, BEGAN_MS + 3 * HOUR_MS, None)
    for as_of, expected in (
        (None, newest),
        (BEGAN_MS - 1, None),
        (20_260_131, None),
        (BEGAN_MS, first),
        (BEGAN_MS + HOUR_MS - 1, first),
        (BEGAN_MS + HOUR_MS, None),
        (BEGAN_MS + 2 * HOUR_MS + 1, third),
        (BEGAN_MS + 30 * HOUR_MS, newest),
    ):
        found = asking.call(partial(_shoes, as_of))
        assert found.value == expected
        assert (found.complete, found.partition in range(12)) == (True, True)
    assert asking.call(lambda client: client.versioned("prices").get("nobody")).value is None
    assert asking.call(lambda client: client.key_value("prices").get("shoes")).value == 5
    history = asking.rows(lambda client: client.versioned("prices").history("shoes", page_rows=1))
    assert history == [newest, third, first]
    some = asking.rows(lambda client: client.versioned("prices").history("shoes", BEGAN_MS + 1, BEGAN_MS + 2 * HOUR_MS))
    assert some == [third, first]
    assert asking.rows(lambda client: client.versioned("prices").history("nobody")) == []


def test_a_null_is_another_answer_than_no_such_key(asking: Blocking | Awaiting) -> None:
    gift = asking.call(lambda client: client.key_value("prices").get("gift"))
    assert (gift.value, gift.found) == (None, True)
    nobody = asking.call(lambda client: client.key_value("prices").get("nobody"))
    assert (nobody.value, nobody.found) == (None, False)


def test_the_catalogue_and_the_lag(asking: Blocking | Awaiting) -> None:
    stores = asking.call(lambda client: client.stores())
    assert {store["store"]: store["kind"] for store in stores} == {
        "rewards": "keyvalue",
        "players": "ranked",
        "sales": "window",
        "visits": "session",
        "prices": "versioned",
    }
    lag = asking.call(lambda client: client.lag())
    assert sorted(node.node for node in lag) == ["a", "b", "c"]
    assert sum(len(node.replicas) for node in lag) == 5 * 12 * 2


def test_what_is_not_there_or_no_query(asking: Blocking | Awaiting) -> None:
    with pytest.raises(UnknownStoreError):
        asking.call(lambda client: client.key_value("nowhere").get("k"))
    with pytest.raises(InvalidArgumentError):
        asking.call(lambda client: client.ranked("rewards").top(3))
    for wrong in (
        lambda client: client.key_value("rewards").get(""),
        lambda client: client.key_value("rewards").get("k", max_lag=-1),
        lambda client: client.key_value("rewards").get("k", position="no token"),
        lambda client: client.ranked("players").top(0),
    ):
        with pytest.raises(InvalidArgumentError):
            asking.call(wrong)
    with pytest.raises(StateError):
        asking.rows(lambda client: client.window("sales").fetch("s1", -1, 0))
