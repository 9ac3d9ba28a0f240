"""Tests that ask for `client` run with both clients; `asking` is one on the nodes that the tests of a file share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.client.both import Awaiting, Blocking, Either
from tests.client.served_cluster import ServedCluster, served_cluster


@pytest.fixture(params=[Blocking, Awaiting], ids=["blocking", "awaiting"])
def client(request: pytest.FixtureRequest) -> Either:
    found: Either = request.param
    return found


@pytest.fixture(scope="module")
def nodes() -> Iterator[ServedCluster]:
    with served_cluster() as found:
        yield found


@pytest.fixture
def asking(client: Either, nodes: ServedCluster) -> Iterator[Blocking | Awaiting]:
    with client(*nodes.addresses) as found:
        yield found
