"""Who asks, and what they may."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.tokens import write_callers
from storekeeper.clock import ManualClock
from storekeeper.node.security.access import (
    Authenticator,
    Caller,
    ForbiddenError,
    HostRule,
    Role,
    TokenBook,
    UnauthenticatedError,
    check_access,
    new_token,
)
from storekeeper.node.security.hop import ANONYMOUS, CERTIFICATE, FOR_ITSELF, Hop

READER = Caller("r", frozenset({Role.READER}), frozenset({"rewards"}))
EVERYTHING = Caller("e", frozenset({Role.READER}))
MONITOR = Caller("m", frozenset({Role.MONITOR}))
OPEN = (b"/metrics", b"/readyz", b"/docs", b"/", b"/state/stores", b"/state/lag", b"/state/instances")


@pytest.mark.parametrize("path", OPEN)
def test_lists_and_health_are_for_every_caller(path: bytes) -> None:
    for caller in (READER, EVERYTHING, MONITOR):
        check_access(caller, path)


@pytest.mark.parametrize("group", [b"keyvalue", b"keyvalues", b"windowed", b"sessions", b"ranked", b"metadata", b"new"])
def test_a_store_is_for_those_who_may_read_it(group: bytes) -> None:
    check_access(READER, b"/state/" + group + b"/rewards/1")
    check_access(READER, b"/state/" + group + b"/rewards@new-topic/1")
    check_access(EVERYTHING, b"/state/" + group + b"/other/1")
    for caller, store in ((READER, b"other"), (READER, b"other@rewards"), (MONITOR, b"rewards")):
        with pytest.raises(ForbiddenError):
            check_access(caller, b"/state/" + group + b"/" + store + b"/1")


@pytest.mark.parametrize(
    "path",
    [
        b"/state%2Fkeyvalues/secret/all",
        b"/%73tate/keyvalues/secret/all",
        b"/state/keyvalues%2Fsecret/all",
        b"/state/keyvalues/secret%2Fall",
        b"/state/keyvalues/%73ecret/all",
        b"/state/keyvalues/secret",
        b"/state/keyvalues//secret/all",
        b"/state/keyvalue/rewards%2F..%2Fsecret/1",
        b"/state/keyvalue/REWARDS/1",
        b"/state/keyvalue/rewards%00/1",
    ],
)
def test_no_way_of_writing_a_path_reaches_another_store(path: bytes) -> None:
    with pytest.raises(ForbiddenError):
        check_access(READER, path)


@pytest.fixture
def authenticator(tmp_path: Path) -> tuple[Authenticator, str]:
    token = new_token()
    write_callers(tmp_path / "tokens", {token: READER})
    return Authenticator(TokenBook(tmp_path / "tokens", ManualClock())), token


def test_a_caller_is_known_by_its_token_only(authenticator: tuple[Authenticator, str]) -> None:
    guarded, token = authenticator
    assert not guarded.open
    assert guarded.caller(f"Bearer {token}".encode()) == READER
    assert guarded.caller(f"bearer {token}".encode()) == READER
    for wrong in (
        None,
        b"",
        b"Bearer",
        b"Bearer ",
        b"Bearer x",
        b"Basic " + token.encode(),
        token.encode(),
        b"B" * 9999,
    ):
        with pytest.raises(UnauthenticatedError):
            guarded.caller(wrong)


def test_a_node_asks_with_its_callers_rights(authenticator: tuple[Authenticator, str]) -> None:
    guarded, _ = authenticator
    assert guarded.caller(None, Hop("b", "r")) == READER
    assert guarded.caller(None, Hop("b", FOR_ITSELF)).may_read("any")
    for stranger in (ANONYMOUS, CERTIFICATE, "unknown", ""):
        with pytest.raises(UnauthenticatedError):
            guarded.caller(None, Hop("b", stranger))


def test_certificates_alone_let_everything_be_read() -> None:
    guarded = Authenticator(certificates=True)
    assert guarded.caller(None).may_read("any")
    assert guarded.caller(None, Hop("b", CERTIFICATE)).may_read("any")
    with pytest.raises(UnauthenticatedError):
        guarded.caller(None, Hop("b", ANONYMOUS))


HOSTS = HostRule(["My-Machine", ""])


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
def test_our_hosts_are_taken(host: bytes) -> None:
    assert HOSTS.accepts(host)
    assert HOSTS.accepts(host), "and are again when remembered"


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
def test_foreign_hosts_are_not(host: bytes) -> None:
    assert not HOSTS.accepts(host)
