"""Which hosts are this machine."""

from __future__ import annotations

import pytest

from storekeeper.loopback import is_loopback


@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "localhost"])
def test_this_machine_is_on_loopback(host: str) -> None:
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["10.0.0.1", "::", "localhost.example.com", "127.0.0.1.example.com", ""])
def test_no_other_host_is(host: str) -> None:
    assert not is_loopback(host)
