"""The stores of apps that have ever run in a run directory, until they are retired. Nodes serve all of them.

An app that the configuration doesn't name any more writes nothing, and nobody can know its stores from its code. So
they are in a file: {"<store>": {"app": "<app>", "definition": "<store>=<topic>…"}}.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import orjson

from storekeeper.apps.registry import APPS
from storekeeper.errors import StorageError
from storekeeper.ops.layout import RunLayout
from storekeeper.whole_files import write_whole


@dataclass(frozen=True, slots=True)
class KnownStore:
    """A store: its app, and its definition as the setting `stores` has it."""

    app: str
    definition: str


def read_known_stores(layout: RunLayout) -> Mapping[str, KnownStore]:
    """The stores by name; none if no platform was started here.

    Raises:
        StorageError: the file is damaged.
    """
    try:
        return msgspec.json.decode(layout.known_stores.read_bytes(), type=dict[str, KnownStore])
    except FileNotFoundError:
        return {}
    except msgspec.MsgspecError as error:
        msg = f"{layout.known_stores} is damaged ({error}): remove it, and stores of apps that are gone are not served"
        raise StorageError(msg) from error


def configured_stores() -> Mapping[str, KnownStore]:
    """The stores of the apps that the configuration names."""
    return {store.name: KnownStore(app.name, str(store.definition)) for app in APPS.values() for store in app.stores}


def removed_stores(layout: RunLayout) -> Mapping[str, KnownStore]:
    """The stores of apps that the configuration doesn't name, and that are not retired."""
    return {
        name: store
        for name, store in read_known_stores(layout).items()
        if store.app not in APPS and name not in configured_stores()
    }


def remember_stores(layout: RunLayout) -> None:
    """Adds the stores that the configuration names."""
    _write(layout, {**removed_stores(layout), **configured_stores()})


def forget_stores(layout: RunLayout, app: str) -> None:
    """Removes the stores of an app."""
    _write(layout, {name: store for name, store in read_known_stores(layout).items() if store.app != app})


def _write(layout: RunLayout, stores: Mapping[str, KnownStore]) -> None:
    write_whole(layout.known_stores, orjson.dumps(stores, option=orjson.OPT_INDENT_2))
