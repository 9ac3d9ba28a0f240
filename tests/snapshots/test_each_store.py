"""The stores of one app share a job, and a store that fails does not keep the others from their snapshots."""

from __future__ import annotations

import pytest

from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.errors import SnapshotDamagedError, StateError
from storekeeper.snapshots.job import SnapshotSummary, each_taken
from tests.snapshot_tables import manifest_of

STORES = [StoreSpec(name, "places", ()) for name in ("orders", "order-times", "products")]


@pytest.mark.parametrize(
    ("errors", "raised"),
    [
        ({"orders": SnapshotDamagedError("orders was changed")}, "orders was changed"),
        ({"orders": BrokerUnavailableError("no answer")}, "no answer"),
        ({"orders": BrokerUnavailableError("no"), "products": SnapshotDamagedError("damaged")}, "damaged"),
    ],
)
def test_the_other_stores_have_their_snapshots(errors: dict[str, StateError], raised: str) -> None:
    taken = []

    def take(store: StoreSpec) -> SnapshotSummary:
        if store.name in errors:
            raise errors[store.name]
        taken.append(store.name)
        return SnapshotSummary(manifest_of([], store=store.name), committed=True, changed_keys=1, duration_ms=1)

    with pytest.raises(StateError, match=raised):
        each_taken(STORES, take)
    assert taken == [store.name for store in STORES if store.name not in errors]
