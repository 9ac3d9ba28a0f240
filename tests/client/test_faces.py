"""The two clients offer the same methods with the same parameters."""

from __future__ import annotations

import inspect

from storekeeper.client.async_client import AsyncStateClient
from storekeeper.client.client import StateClient


def test_methods_parameters_and_promises_are_the_same() -> None:
    assert _offered(StateClient) == _offered(AsyncStateClient)


def _offered(kind: type) -> dict[str, list[tuple[str, object]]]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: [(parameter.name, parameter.default) for parameter in inspect.signature(method).parameters.values()]
        for name, method in methods
        if not name.startswith("_")
    }
