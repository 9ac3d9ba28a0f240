"""Who asks, and what they may."""

from __future__ import annotations

from pathlib import Path

import pytest

from state.clock import ManualClock
from state.security.access import (
    LIVE_PATH,
    Caller,
    ForbiddenError,
    Role,
    UnauthenticatedError,
    check_access,
    current_caller,
    is_open,
)
from state.security.authenticator import Authenticator, TokenBook, TokenRecord, new_token, token_digest, write_tokens
from state.security.hop import ANONYMOUS, CERTIFICATE, FOR_ITSELF, Hop

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
    write_tokens(tmp_path / "tokens", [TokenRecord(READER, token_digest(token.encode()))])
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
    assert guarded.caller_of(Hop("b", "r")) == READER
    assert guarded.caller_of(Hop("b", FOR_ITSELF)).may_read("any")
    for stranger in (ANONYMOUS, CERTIFICATE, "unknown", ""):
        with pytest.raises(UnauthenticatedError):
            guarded.caller_of(Hop("b", stranger))


def test_a_node_says_for_whom_it_asks(authenticator: tuple[Authenticator, str]) -> None:
    guarded, _ = authenticator
    assert Authenticator().asking_for() == ANONYMOUS
    assert guarded.asking_for() == FOR_ITSELF
    before = current_caller.set(READER)
    assert guarded.asking_for() == "r"
    current_caller.reset(before)


def test_certificates_alone_let_everything_be_read() -> None:
    guarded = Authenticator(certificates=True)
    assert guarded.caller(None).may_read("any")
    assert guarded.caller_of(Hop("b", CERTIFICATE)).may_read("any")
    with pytest.raises(UnauthenticatedError):
        guarded.caller_of(Hop("b", ANONYMOUS))


def test_the_page_is_told_from_what_holds_data() -> None:
    assert is_open(b"/")
    assert is_open(b"/page/page.js")
    assert is_open(b"/docs")
    assert is_open(LIVE_PATH)
    assert not is_open(b"/pagex")
    assert not is_open(b"/openapi.json")
    assert not is_open(b"/state/stores")
    assert not is_open(b"/metrics")
