"""What `verify` says of copies that it can't read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from storekeeper.clock import SystemClock
from storekeeper.topology import Store, StreamsBuilder
from storekeeper.verification.local_copies import LocalCopies


@pytest.mark.parametrize(("backend", "named"), [("rocksdb", []), ("memory", ["memory"]), ("redis", ["redis"])])
def test_rows_that_no_file_has_are_named_as_not_compared(backend: str, named: list[str]) -> None:
    streams = StreamsBuilder("shop")
    streams.stream("events", int).group_by_key().count(store=Store("rows", int, backend=backend))
    (store,) = streams.build().sub_topologies[0].stores
    changelog: Any = None  # nothing is read
    copies = LocalCopies(store, Path("none"), changelog, SystemClock())
    assert [word for sentence in copies.not_compared for word in named if word in sentence] == named
    assert bool(copies.not_compared) is bool(named)
