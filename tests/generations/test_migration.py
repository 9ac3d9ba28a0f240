from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storekeeper.errors import ConfigurationError, InvalidNameError
from storekeeper.generations.migration import Chain, StoreMigration, StoreRecord


def with_tier(key: bytes, value: bytes) -> list[StoreRecord]:
    return [
        (key, orjson.dumps({**orjson.loads(value), "Tier": "gold" if orjson.loads(value)["Points"] > 9 else "tin"}))
    ]


def by_region(key: bytes, value: bytes) -> list[StoreRecord]:
    return [(key[:1] + b"|" + key, value)]


def without_poor(key: bytes, value: bytes) -> list[StoreRecord]:
    return [(key, value)] if orjson.loads(value)["Points"] else []


def migration(name: str, to_version: int, convert: str) -> StoreMigration:
    return StoreMigration(name, "rewards", f"{name}.", to_version, f"{__name__}:{convert}")


TIER = migration("tier", 2, "with_tier")
REGION = replace(migration("region", 3, "by_region"), changes_key=True, describe=f"{__name__}:regional")
POOR = migration("poor", 4, "without_poor")


@given(st.binary(min_size=1, max_size=20), st.integers(0, 20))
def test_a_chain_goes_through_all_its_steps(key: bytes, points: int) -> None:
    value = orjson.dumps({"Points": points})
    ((new_key, new_value),) = Chain((TIER, REGION)).convert(key, value)
    assert new_key == key[:1] + b"|" + key
    assert orjson.loads(new_value) == {"Points": points, "Tier": "gold" if points > 9 else "tin"}


def test_no_steps_change_nothing() -> None:
    assert Chain().convert(b"k", b"v") == [(b"k", b"v")]
    assert (Chain().describe, Chain().changes_key) == (None, False)


def test_a_dropped_record_stays_dropped() -> None:
    assert Chain((POOR, TIER)).convert(b"k", b'{"Points":0}') == []
    assert len(Chain((POOR, TIER)).convert(b"k", b'{"Points":1}')) == 1


def test_a_topology_stays_until_a_step_names_another() -> None:
    assert Chain((TIER,)).describe is None
    assert Chain((TIER, REGION, POOR)).describe == REGION.describe


def test_each_store_has_the_steps_of_its_own() -> None:
    other = replace(REGION, store="others")
    chain = Chain((TIER, other))
    assert (chain.of("rewards").steps, chain.of("others").steps) == ((TIER,), (other,))
    assert not chain.of("rewards").changes_key
    assert chain.of("others").changes_key


@pytest.mark.parametrize("path", ["", "nowhere", "no.such.module:f", f"{__name__}:missing", ":f"])
def test_a_function_that_is_not_there_is_named(path: str) -> None:
    with pytest.raises(ConfigurationError, match="there is no function"):
        Chain((StoreMigration("broken", "rewards", "Broken.", 2, path),)).convert(b"k", b"v")


@pytest.mark.parametrize("name", ["a/b", ""])
def test_a_name_that_no_file_could_have_is_refused(name: str) -> None:
    with pytest.raises(InvalidNameError):
        replace(TIER, name=name)
