"""The two clients offer the same: whoever adds a method or a parameter to one adds it to the other."""

from __future__ import annotations

import inspect

import pytest

from state.client import AsyncStateClient, StateClient, async_stores, stores

_PAIRS = [
    (StateClient, AsyncStateClient),
    *(
        (kind, getattr(async_stores, f"Async{name}"))
        for name, kind in vars(stores).items()
        if name.startswith("Remote")
    ),
]


@pytest.mark.parametrize(("blocking", "awaiting"), _PAIRS, ids=lambda kind: kind.__name__)
def test_methods_parameters_and_promises_are_the_same(blocking: type, awaiting: type) -> None:
    assert _offered(blocking) == _offered(awaiting)


def _offered(kind: type) -> dict[str, list[tuple[str, object]]]:
    methods = inspect.getmembers(kind, inspect.isfunction)
    return {
        name: [(parameter.name, parameter.default) for parameter in inspect.signature(method).parameters.values()]
        for name, method in methods
        if not name.startswith("_")
    }
