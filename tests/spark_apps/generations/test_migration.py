from __future__ import annotations

from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.generations.migration import Chain, StoreMigration, StoreRecord
from state.errors import ConfigurationError, InvalidNameError


def with_tier(key: bytes, value: bytes) -> list[StoreRecord]:
    return [
        (key, orjson.dumps({**orjson.loads(value), "Tier": "gold" if orjson.loads(value)["Points"] > 9 else "tin"}))
    ]


def without_tier(key: bytes, value: bytes) -> StoreRecord:
    content = orjson.loads(value)
    del content["Tier"]
    return key, orjson.dumps(content)


def by_region(key: bytes, value: bytes) -> list[StoreRecord]:
    return [(key[:1] + b"|" + key, value)]


def from_region(key: bytes, value: bytes) -> StoreRecord:
    return key[2:], value


def without_poor(key: bytes, value: bytes) -> list[StoreRecord]:
    return [(key, value)] if orjson.loads(value)["Points"] else []


def migration(name: str, to_version: int, convert: str, revert: str | None) -> StoreMigration:
    here = __name__
    return StoreMigration(
        name, "rewards", f"{name}.", to_version, f"{here}:{convert}", None if revert is None else f"{here}:{revert}", ()
    )


TIER = migration("tier", 2, "with_tier", "without_tier")
REGION = migration("region", 3, "by_region", "from_region")
POOR = migration("poor", 4, "without_poor", None)


@given(st.binary(min_size=1, max_size=20), st.integers(0, 20))
def test_a_chain_goes_through_all_its_steps_and_back(key: bytes, points: int) -> None:
    value = orjson.dumps({"Points": points})
    chain = Chain((TIER, REGION))
    ((new_key, new_value),) = chain.convert(key, value)
    assert new_key == key[:1] + b"|" + key
    assert orjson.loads(new_value) == {"Points": points, "Tier": "gold" if points > 9 else "tin"}
    assert chain.revert(new_key, new_value) == (key, value)


def test_no_steps_change_nothing() -> None:
    assert Chain().convert(b"k", b"v") == [(b"k", b"v")]
    assert Chain().revert(b"k", b"v") == (b"k", b"v")


def test_a_dropped_record_stays_dropped() -> None:
    assert Chain((POOR, TIER)).convert(b"k", b'{"Points":0}') == []
    assert len(Chain((POOR, TIER)).convert(b"k", b'{"Points":1}')) == 1


def test_a_step_without_a_way_back_says_so() -> None:
    with pytest.raises(ConfigurationError, match="migration poor has no way back"):
        Chain((TIER, POOR)).revert(b"k", b'{"Points":1}')


@pytest.mark.parametrize("path", ["", "nowhere", "no.such.module:f", f"{__name__}:missing", ":f"])
def test_a_function_that_is_not_there_is_named(path: str) -> None:
    broken = StoreMigration("broken", "rewards", "Broken.", 2, path, None, ())
    with pytest.raises(ConfigurationError, match="there is no function"):
        Chain((broken,)).convert(b"k", b"v")


def by_first(key: bytes) -> str:
    return f"rewards-{key[:1].decode()}"


APART = replace(TIER, name="apart", stores=("rewards-a", "rewards-b"), route=f"{__name__}:by_first")
TOGETHER = replace(REGION, name="together", stores=("all",))
POINTS = orjson.dumps({"Points": 1})


def test_rows_go_to_the_store_that_their_key_leads_to_and_stay_there_until_another_step_says_so() -> None:
    tiered = orjson.dumps({"Points": 1, "Tier": "tin"})
    assert Chain((APART,)).placed("rewards", b"b7", POINTS) == [("rewards-b", b"b7", tiered)]
    assert Chain((APART, REGION)).placed("rewards", b"a7", POINTS) == [("rewards-a", b"a|a7", tiered)]
    assert Chain((APART, TOGETHER)).placed("rewards", b"a7", POINTS) == [("all", b"a|a7", tiered)]
    assert Chain((TIER,)).placed("rewards", b"b7", POINTS) == [("rewards", b"b7", tiered)]
    assert Chain((APART, REGION)).stores("rewards") == ("rewards-a", "rewards-b")
    assert Chain((APART, TOGETHER)).stores("rewards") == ("all",)
    assert Chain((TIER,)).stores("rewards") == ("rewards",)


def test_a_route_to_a_store_that_was_not_named_is_refused() -> None:
    with pytest.raises(ValueError, match="leads to none of its stores"):
        Chain((APART,)).placed("rewards", b"c7", POINTS)


@pytest.mark.parametrize(
    "changes",
    [
        {"stores": ("a", "b")},
        {"stores": ("a", "a"), "route": "x:y"},
        {"stores": ("a",), "route": "x:y"},
        {"route": "x:y"},
        {"stores": ("a/b",)},
    ],
)
def test_a_migration_that_could_not_place_rows_is_none(changes: dict[str, Any]) -> None:
    with pytest.raises((ConfigurationError, InvalidNameError)):
        replace(TIER, **changes)


KEYED = replace(REGION, changes_key=True, convert_key=f"{__name__}:key_by_region")
HALVES = replace(migration("halves", 4, "as_it_is", None), stores=("low", "high"), route=f"{__name__}:half_of")


def key_by_region(key: bytes) -> list[bytes]:
    return [key[:1] + b"|" + key]


def as_it_is(key: bytes, value: bytes) -> list[StoreRecord]:
    return [(key, value)]


def half_of(key: bytes) -> str:
    return "low" if key < b"m" else "high"


@given(st.binary(min_size=1, max_size=20), st.integers(0, 20))
def test_what_goes_when_a_row_goes_is_what_was_made_of_it(key: bytes, points: int) -> None:
    chain = Chain((TIER, KEYED, HALVES))
    value = orjson.dumps({"Points": points})
    assert chain.placed_keys("rewards", key) == [record[:2] for record in chain.placed("rewards", key, value)]


def test_a_change_of_keys_that_does_not_tell_what_becomes_of_a_deletion_is_refused_there() -> None:
    silent = replace(REGION, changes_key=True)
    with pytest.raises(ConfigurationError, match="migration region doesn't say by `convert_key`"):
        Chain((TIER, silent)).placed_keys("rewards", b"k")
    assert Chain((TIER,)).placed_keys("rewards", b"k") == [("rewards", b"k")]
