"""Read-only views: the whole reading half of each store kind, and nothing else of it."""

from __future__ import annotations

from typing import Any

import pytest

from state.errors import NullKeyError, StoreClosedError
from state.serdes.serde import Utf8Serde
from state.stores.builder import StoreBuilder
from state.stores.layers import StateStore
from state.stores.read_only import (
    ReadOnlyKeyValueStore,
    ReadOnlySessionStore,
    ReadOnlyWindowStore,
    Windowed,
    read_only_key_value,
    read_only_session,
    read_only_window,
)

UTF8 = Utf8Serde()
BUILDER = StoreBuilder("rows")


def views() -> list[tuple[StateStore, Any, type]]:
    rows = BUILDER.key_value(UTF8, UTF8)
    rows.put("a", "1")
    windows = BUILDER.window(UTF8, UTF8, window_size_ms=10, retention_ms=100)
    windows.put("a", "1", 5)
    sessions = BUILDER.session(UTF8, UTF8, retention_ms=100)
    sessions.put("a", 5, 9, "1")
    return [
        (rows, read_only_key_value(rows), ReadOnlyKeyValueStore),
        (windows, read_only_window(windows), ReadOnlyWindowStore),
        (sessions, read_only_session(sessions), ReadOnlySessionStore),
    ]


KINDS = pytest.mark.parametrize("kind", range(3), ids=["key_value", "window", "session"])


def reads(contract: type) -> set[str]:
    return {name for name in vars(contract) if not name.startswith("_")}


@KINDS
def test_a_view_has_every_read_of_its_contract(kind: int) -> None:
    store, view, contract = views()[kind]
    assert len(reads(contract)) >= 8
    for name in reads(contract):
        assert getattr(view, name) == getattr(store, name)
    assert view.name == "rows"


@KINDS
def test_a_view_has_nothing_else_of_the_store(kind: int) -> None:
    store, view, contract = views()[kind]
    others = {name for name in dir(store) if not name.startswith("__")} - reads(contract) - {"name"}
    assert {"flush", "close", "restore_batch", "layers", "context", "_top", "_write", "put"} <= others
    for name in others:
        with pytest.raises(AttributeError):
            getattr(view, name)


@KINDS
def test_nothing_can_be_set_on_a_view(kind: int) -> None:
    _, view, _ = views()[kind]
    with pytest.raises(AttributeError):
        view.name = "other"
    with pytest.raises(AttributeError):
        view.put = print


def test_views_read_what_the_store_has_now() -> None:
    store = BUILDER.key_value(UTF8, UTF8)
    view = read_only_key_value(store)
    assert view.get("a") is None
    store.put("a", "1")
    assert (view.get("a"), list(view.all()), view.approximate_num_entries()) == ("1", [("a", "1")], 1)
    none: Any = None
    with pytest.raises(NullKeyError):
        view.get(none)
    store.close()
    with pytest.raises(StoreClosedError):
        view.get("a")


def test_a_windowed_key_is_a_plain_tuple() -> None:
    assert Windowed("a", 5, 15) == ("a", 5, 15)
