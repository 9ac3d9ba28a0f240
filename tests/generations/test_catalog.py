"""The migrations that plans and steps know by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from spark_apps.hadoop_export import HADOOP_EXPORT
from spark_apps.pos import POS
from spark_apps.ticks import TICKS
from state.rewards import REWARDS_TIER
from storekeeper.apps.registry import APPS, app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.errors import ConfigurationError
from storekeeper.generations import catalog
from storekeeper.generations.catalog import (
    check_fitting,
    check_since,
    first_journal,
    migration_named,
    migrations_of,
    registered_migrations,
    spec_of,
    topology_of,
)
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.journal import Generation, GenerationState
from storekeeper.generations.status import check_changeable
from storekeeper.stores.store_definitions import ServedKind
from tests.integration.counted_app import COUNTED

LEVEL = replace(REWARDS_TIER, name="prices-level", store="prices")
OTHERS = (LEVEL,)
SAME = (replace(LEVEL, name=REWARDS_TIER.name),)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    registered_migrations.cache_clear()
    yield
    registered_migrations.cache_clear()


def _with_migrations(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    ticks = replace(TICKS, migrations=f"{__name__}:{named}")
    monkeypatch.setattr(catalog, "APPS", {**APPS, "ticks": ticks})


def test_an_app_names_the_migrations_of_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    _with_migrations(monkeypatch, "OTHERS")
    assert migrations_of("prices") == OTHERS
    assert migration_named("prices-level") is LEVEL
    assert migration_named("rewards-tier") is REWARDS_TIER


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("SAME", "ticks names a second migration 'rewards-tier'"),
        ("LEVEL", "is not a tuple of migrations"),
        ("GONE", "there is no function"),
    ],
)
def test_what_names_no_migrations_or_the_same_twice_is_refused(
    monkeypatch: pytest.MonkeyPatch, named: str, told: str
) -> None:
    _with_migrations(monkeypatch, named)
    with pytest.raises(ConfigurationError, match=told):
        registered_migrations()


def test_a_generation_has_its_topology_its_topics_and_the_stores_table() -> None:
    second = Generation(2, GenerationState.LIVE, {"rewards": "pos-rewards-changelog-g2"}, migrations=("rewards-tier",))
    (store,) = spec_of(POS, second).stores
    assert (store.changelog_topic, store.table_name, store.schema_version) == (
        "pos-rewards-changelog-g2",
        "rewards",
        2,
    )
    assert [item.name for item in store.value_fields][:2] == ["CustomerCardNo", "Tier"]
    there = spec_of(POS, second)
    assert there.describe is not POS.describe
    assert there.sinks(AppSettings()) == POS.sinks(AppSettings())
    assert spec_of(POS, first_journal(POS).live_generation).stores == POS.stores
    regional = topology_of(POS, ["rewards-tier", "rewards-by-region"]).describe()
    assert "select-key" in regional
    assert regional != topology_of(POS, ["rewards-tier"]).describe()


def test_a_store_that_a_generation_was_made_with_must_be_there() -> None:
    second = Generation(2, GenerationState.LIVE, {"rewards": "r-g2", "tills": "t-g2"})
    with pytest.raises(GenerationRefusedError, match="generation 2 of pos was made with store tills"):
        spec_of(POS, second)


def test_an_app_without_a_topology_has_no_generations() -> None:
    with pytest.raises(GenerationRefusedError, match="hadoop_export can't have generations: it is not a topology"):
        check_changeable(HADOOP_EXPORT)


@pytest.mark.parametrize(
    ("app", "name", "why"),
    [
        ("ticks", "BY_LETTER", "is of store sums, not of prices"),
        ("tests.integration.counted_app:COUNTED", "BY_NUMBER", "those of tens hold windows of time"),
    ],
)
def test_a_change_that_does_not_fit_the_apps_stores_is_refused(app: str, name: str, why: str) -> None:
    with pytest.raises(GenerationRefusedError, match=why):
        check_fitting(app_named(app), [], [f"tests.integration.counted_app:{name}"])


def test_rows_of_a_versioned_store_are_not_converted() -> None:
    app = replace(COUNTED, stores=tuple(replace(one, kind=ServedKind.VERSIONED) for one in COUNTED.stores))
    with pytest.raises(GenerationRefusedError, match="is of versioned store tens, whose rows can't be converted"):
        check_fitting(app, [], ["tests.integration.counted_app:WITH_FULL"])


def test_only_stores_behind_a_repartition_get_another_number_of_partitions() -> None:
    check_fitting(POS, [], ["rewards-tier"], 7)
    check_fitting(COUNTED, [], [], 7)
    with pytest.raises(GenerationRefusedError, match="as many partitions as ticks, because its tasks read that topic"):
        check_fitting(TICKS, [], [], 7)


@pytest.mark.parametrize("since", [None, "beginning", "2026-01-31T00:00:00Z", "2026-01-31T00:00+02:00"])
def test_a_backfill_begins_at_the_beginning_or_at_a_time(since: str | None) -> None:
    check_since(since)


@pytest.mark.parametrize("since", ["", "end", "2026-01-31", "2026-01-31T00:00:00"])
def test_a_backfill_begins_at_no_other_place(since: str) -> None:
    with pytest.raises(GenerationRefusedError, match="is not a place to begin"):
        check_since(since)
