"""State stores, changelogs, replicas, queries, snapshots and maintenance: the library and the serving node.

`storekeeper.public` lists the names that can be imported from here. They are loaded when one is first used, so that a
program which only reads settings or manifests loads neither stores nor clients.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from storekeeper.public import *  # noqa: F403


def __getattr__(name: str) -> Any:
    public = None if name.startswith("_") else _public().get(name)
    if public is None:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return public


def _public() -> dict[str, Any]:
    try:
        return vars(import_module("storekeeper.public"))
    except ModuleNotFoundError as error:
        if error.name != "storekeeper.public":
            raise
        msg = (
            "only storekeeper-client is installed: import from storekeeper.client, or install storekeeper in its place"
        )
        raise ImportError(msg) from error
