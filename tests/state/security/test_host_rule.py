"""Host headers on loopback."""

from __future__ import annotations

import pytest

from state.security.host_rule import HostRule

RULE = HostRule(["My-Machine", ""])


@pytest.mark.parametrize(
    "host",
    [
        b"127.0.0.1",
        b"127.0.0.1:18101",
        b"127.9.9.9:1",
        b"localhost:18101",
        b"LOCALHOST",
        b"[::1]:1",
        b"[::1]",
        b"my-machine:1",
    ],
)
def test_ours_are_taken(host: bytes) -> None:
    assert RULE.accepts(host)
    assert RULE.accepts(host), "and are again when remembered"


@pytest.mark.parametrize(
    "host",
    [
        b"",
        b"evil.example.org",
        b"evil.example.org:18101",
        b"localhost.evil.example.org",
        b"127.0.0.1.nip.io:18101",
        b"127.0.0.1:18101@evil",
        b"127.0.0.1:x",
        b"10.0.0.1:18101",
        b"0.0.0.0:18101",
        b"localhost:18101\x00",
        b"\xff",
        b"[::1",
    ],
)
def test_foreign_ones_are_not(host: bytes) -> None:
    assert not RULE.accepts(host)
