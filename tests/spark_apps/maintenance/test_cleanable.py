from __future__ import annotations

import pytest
from spark_apps.loyalty.migrations import REWARDS_SPLIT

from spark_apps.maintenance.cleanable import check_cleanable, cleanable_stores, purgeable_stores
from spark_apps.registry import store_named
from state.errors import ConfigurationError


def test_stores_that_bound_themselves_are_not_cleaned_up() -> None:
    assert set(cleanable_stores()) == {
        *("rewards", "prices", "players", "products", "orders", "order-locations"),
        *REWARDS_SPLIT.stores,
    }
    with pytest.raises(ConfigurationError, match="set its retention"):
        check_cleanable(store_named("sales"), keep_compute_state=True)


@pytest.mark.parametrize("store", ["rewards", "players"])
def test_totals_that_an_app_goes_on_from_need_somebody_to_say_so(store: str) -> None:
    with pytest.raises(ConfigurationError, match="goes on from its old total"):
        check_cleanable(store_named(store), keep_compute_state=False)
    check_cleanable(store_named(store), keep_compute_state=True)


def test_only_an_app_that_tells_where_its_state_is_forgets_what_was_deleted() -> None:
    of_loyalty = dict.fromkeys(("rewards", *REWARDS_SPLIT.stores), "loyalty")
    assert purgeable_stores() == {**of_loyalty, "players": "leaderboard"}
    for store in ("rewards", "players"):
        check_cleanable(store_named(store), keep_compute_state=False, purge_compute_state=True)
    with pytest.raises(ConfigurationError, match="has no `state_key`"):
        check_cleanable(store_named("products"), keep_compute_state=True, purge_compute_state=True)


def test_rows_that_are_written_anew_need_nothing() -> None:
    check_cleanable(store_named("prices"), keep_compute_state=False)
