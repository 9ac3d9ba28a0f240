from __future__ import annotations

import pytest

from storekeeper.apps.registry import store_named
from storekeeper.cleanup.cleanable import check_cleanable, cleanable_stores
from storekeeper.errors import ConfigurationError


def test_stores_that_bound_themselves_are_not_cleaned_up() -> None:
    assert {"rewards", "prices", "players", "standings", "products"} <= set(cleanable_stores())
    check_cleanable(store_named("rewards"))
    assert "sales" not in cleanable_stores()
    with pytest.raises(ConfigurationError, match="set its retention"):
        check_cleanable(store_named("sales"))
