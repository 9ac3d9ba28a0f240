"""Signed requests between nodes."""

from __future__ import annotations

import random

import pytest

from storekeeper.clock import ManualClock
from storekeeper.node.security.hop import (
    CALLER,
    DEADLINE,
    FOR_ITSELF,
    HOP,
    SIGNATURE,
    WINDOW_MS,
    HopRefusedError,
    HopSigner,
    HopVerifier,
    ReplayWindow,
)

SECRET = b"s" * 32
TARGET = "/state/keyvalue/rewards/1?key_format=string"


def signed(
    clock: ManualClock, secret: bytes = SECRET, caller: str = FOR_ITSELF, body: bytes = b""
) -> dict[bytes, bytes]:
    headers = HopSigner("a", secret, clock, lambda: caller)("b", "GET", TARGET, body, 500)
    return {name.encode(): value.encode() for name, value in headers.items()}


def test_a_signed_request_says_who_asks_for_whom() -> None:
    clock = ManualClock(1_000_000)
    hop = HopVerifier("b", SECRET, clock).verify("GET", TARGET.encode(), signed(clock, caller="grafana"))
    assert (hop.node, hop.caller) == ("a", "grafana")


@pytest.mark.parametrize(
    ("method", "target", "body", "changed"),
    [
        ("POST", TARGET, b"", {}),
        ("GET", TARGET + "&stale=ok", b"", {}),
        ("GET", "/internal/scan/rewards", b"", {}),
        ("GET", TARGET, b"x", {}),
        ("GET", TARGET, b"", {HOP: b"b"}),
        ("GET", TARGET, b"", {CALLER: b"admin"}),
        ("GET", TARGET, b"", {CALLER: b""}),
        ("GET", TARGET, b"", {DEADLINE: b"30000"}),
        ("GET", TARGET, b"", {SIGNATURE: b""}),
        ("GET", TARGET, b"", {SIGNATURE: b"..."}),
        ("GET", TARGET, b"", {SIGNATURE: b"x" * 5000}),
        ("GET", TARGET, b"", {SIGNATURE: "\u00e4".encode("latin-1")}),
    ],
)
def test_a_changed_request_is_refused(method: str, target: str, body: bytes, changed: dict[str, bytes]) -> None:
    clock = ManualClock(1_000_000)
    headers = signed(clock) | {name.encode(): value for name, value in changed.items()}
    with pytest.raises(HopRefusedError):
        HopVerifier("b", SECRET, clock).verify(method, target.encode(), headers).check_body(body)


def test_an_unsigned_one_and_one_of_another_cluster_are_refused() -> None:
    clock = ManualClock(1_000_000)
    verifier = HopVerifier("b", SECRET, clock)
    for headers in ({}, {HOP.encode(): b"a"}, signed(clock, secret=b"x" * 32)):
        with pytest.raises(HopRefusedError):
            verifier.verify("GET", TARGET.encode(), headers)


def test_what_one_node_was_asked_no_other_node_takes() -> None:
    clock = ManualClock(1_000_000)
    headers = signed(clock)
    with pytest.raises(HopRefusedError, match="not signed for this node"):
        HopVerifier("c", SECRET, clock).verify("GET", TARGET.encode(), headers)
    assert HopVerifier("b", SECRET, clock).verify("GET", TARGET.encode(), headers).node == "a"


def test_it_is_good_once_and_not_for_long() -> None:
    clock = ManualClock(1_000_000)
    verifier, headers, later = HopVerifier("b", SECRET, clock), signed(clock), signed(clock)
    verifier.verify("GET", TARGET.encode(), headers)
    with pytest.raises(HopRefusedError, match="before"):
        verifier.verify("GET", TARGET.encode(), headers)
    clock.advance(WINDOW_MS + 1)
    with pytest.raises(HopRefusedError, match="clocks"):
        verifier.verify("GET", TARGET.encode(), later)


def test_the_window_takes_each_number_once_in_any_order() -> None:
    numbers = [n for n in range(1, 20_000) for _ in range(2)]
    numbers.sort(key=lambda n: n + random.Random(n).randrange(3000))
    window = ReplayWindow()
    assert sorted(n for n in numbers if window.admit(n, 0)) == list(range(1, 20_000))
    assert not window.admit(1, 0)
