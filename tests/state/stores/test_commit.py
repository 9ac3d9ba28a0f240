from __future__ import annotations

import pytest

from state.clock import ManualClock
from state.errors import ConfigurationError, DiskFullError
from state.serdes.serde import Utf8Serde
from state.stores.builder import StoreBuilder
from state.stores.changelog_writer import InMemoryChangelog
from state.stores.commit import Committer


def test_writes_wait_for_the_interval_and_go_in_write_order() -> None:
    clock, log = ManualClock(), InMemoryChangelog()
    store = StoreBuilder("rewards").with_logging(log).with_caching().key_value(Utf8Serde(), Utf8Serde())
    committed: list[int] = []
    committer = Committer([store], interval_ms=100, clock=clock, on_commit=lambda: committed.append(len(log.records)))
    for key in ("b", "a", "c", "b"):
        store.put(key, "v")
    clock.advance(99)
    assert not committer.maybe_commit()
    assert (log.records, committed) == ([], [])
    clock.advance(1)
    assert committer.maybe_commit()
    assert [record.key for record in log.records] == [b"a", b"c", b"b"]
    assert committed == [3]
    assert not committer.maybe_commit()
    assert committer.latency.count == 1


def test_offsets_are_not_committed_when_a_store_is_not_safe() -> None:
    store = StoreBuilder("rewards").with_caching().key_value(Utf8Serde(), Utf8Serde())
    store.put("a", "1")

    def refuse(*_: object) -> None:
        raise DiskFullError("no space left (injected)")

    store.layers.backend.write = refuse  # type: ignore[method-assign, assignment]
    committed: list[bool] = []
    committer = Committer([store], interval_ms=0, clock=ManualClock(), on_commit=lambda: committed.append(True))
    with pytest.raises(DiskFullError):
        committer.maybe_commit()
    assert committed == []
    assert store.get("a") == "1"


def test_a_negative_interval_is_refused() -> None:
    with pytest.raises(ConfigurationError):
        Committer([], interval_ms=-1)
