from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_apps.generations.migration import Chain, StoreMigration, StoreRecord
from state.errors import ConfigurationError


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
