"""Fixtures of the contract suites: every backend that this machine has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.backend import Backend, Backends, all_backends


@pytest.fixture(scope="session")
def backends() -> Iterator[Backends]:
    with all_backends() as present:
        yield present


@pytest.fixture(params=["memory", "rocksdb", "unsealed", pytest.param("redis", marks=pytest.mark.redis)])
def backend(request: pytest.FixtureRequest, backends: Backends) -> Backend:
    """An empty place on one backend."""
    kind: str = request.param
    if kind == "redis" and kind not in backends.kinds:
        pytest.skip(f"{kind} is not installed")
    return backends.fresh(kind)
