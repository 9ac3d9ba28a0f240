"""The migrations that plans and steps know by name."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from spark_apps.loyalty.migrations import REWARDS_TIER
from spark_apps.ticks.spec import TICKS

from spark_apps import registry
from spark_apps.generations.catalog import migration_named, migrations_of, registered_migrations
from state.errors import ConfigurationError

LEVEL = replace(REWARDS_TIER, name="prices-level", store="prices")
OTHERS = (LEVEL,)
SAME = (replace(LEVEL, name=REWARDS_TIER.name),)


@pytest.fixture(autouse=True)
def _asked_anew() -> Iterator[None]:
    registered_migrations.cache_clear()
    yield
    registered_migrations.cache_clear()


def test_an_app_names_the_migrations_of_its_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.APPS, "ticks", replace(TICKS, migrations=f"{__name__}:OTHERS"))
    assert migrations_of("prices") == OTHERS
    assert migration_named("prices-level") is LEVEL
    assert migration_named("rewards-tier") is REWARDS_TIER


@pytest.mark.parametrize(
    ("named", "told"),
    [
        ("SAME", "ticks names a second migration 'rewards-tier'"),
        ("LEVEL", "is no tuple of migrations"),
        ("GONE", "there is no function"),
    ],
)
def test_what_names_no_migrations_or_the_same_twice_is_refused(
    monkeypatch: pytest.MonkeyPatch, named: str, told: str
) -> None:
    monkeypatch.setitem(registry.APPS, "ticks", replace(TICKS, migrations=f"{__name__}:{named}"))
    with pytest.raises(ConfigurationError, match=told):
        registered_migrations()
