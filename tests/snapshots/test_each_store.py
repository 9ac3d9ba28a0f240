"""The stores of one app share a job, and a store that fails does not keep the others from their snapshots."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.errors import SnapshotDamagedError, StateError
from storekeeper.snapshots.job import SnapshotSummary, each_taken, is_due
from tests.snapshot_tables import manifest_of, rows_of, sealed_at, write_snapshot

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


def test_a_table_is_due_once_an_hour(tmp_path: Path) -> None:
    store, settings = StoreSpec("words", "app", (), topic="words-log"), AppSettings(run_dir=tmp_path)
    path, at_ms, minute_ms = tmp_path / "delta" / "words", 1_760_000_000_000, 60_000
    assert is_due(store, settings, at_ms), "there is none"
    write_snapshot(path, rows_of({b"a": b"{}"}), batch_ms=at_ms)
    assert not is_due(store, settings, at_ms + 55 * minute_ms - 1)
    assert is_due(store, settings, at_ms + 55 * minute_ms)
    assert is_due(store, settings, at_ms - 1), "the clock was ahead"
    assert is_due(replace(store, topic="words-log-g2"), settings, at_ms), "another generation took over"
    sealed_at(path).file.write_bytes(b"{}")
    assert is_due(store, settings, at_ms), "the run says that the seal is damaged"
