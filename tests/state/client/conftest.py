"""Each test that asks for `client` runs with both of them."""

from __future__ import annotations

import pytest

from tests.state.client.both import Awaiting, Blocking, Either


@pytest.fixture(params=[Blocking, Awaiting], ids=["blocking", "awaiting"])
def client(request: pytest.FixtureRequest) -> Either:
    found: Either = request.param
    return found
