"""Bearer tokens in their file."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from storekeeper.clock import ManualClock
from storekeeper.errors import ConfigurationError
from storekeeper.node.security.access import (
    Caller,
    Role,
    TokenBook,
    TokenRecord,
    new_token,
    read_tokens,
    token_digest,
    write_tokens,
)


def record(name: str, token: str, stores: frozenset[str] | None = None) -> TokenRecord:
    return TokenRecord(Caller(name, frozenset({Role.READER}), stores), token_digest(token.encode()))


def test_they_come_back_without_the_token_and_private(tmp_path: Path) -> None:
    path, token = tmp_path / "secrets" / "tokens", new_token()
    records = (record("a", token), record("b", new_token(), frozenset({"rewards"})))
    write_tokens(path, records)
    assert read_tokens(path) == records
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert token.encode() not in path.read_bytes()
    assert [entry.name for entry in path.parent.iterdir()] == ["tokens"]


def test_only_a_whole_valid_token_is_known(tmp_path: Path) -> None:
    path, token = tmp_path / "tokens", new_token()
    write_tokens(path, [record("a", token), record("b", new_token())])
    book = TokenBook(path, ManualClock())
    found = book.find(token.encode())
    assert found is not None
    assert found.name == "a"
    for wrong in (b"", token[:-1].encode(), token.encode() + b"x", token_digest(token.encode()).hex().encode()):
        assert book.find(wrong) is None
    assert book.named("b") is not None
    assert book.named("c") is None


def test_a_removed_token_is_refused_and_a_new_one_taken_within_a_second(tmp_path: Path) -> None:
    path, clock, old, new = tmp_path / "tokens", ManualClock(), new_token(), new_token()
    write_tokens(path, [record("a", old)])
    book = TokenBook(path, clock)
    write_tokens(path, [record("a2", new)])
    clock.advance(1000)
    assert book.find(old.encode()) is None
    assert book.find(new.encode()) is not None


def test_where_none_is_needed_the_first_token_is_taken_when_it_comes(tmp_path: Path) -> None:
    path, clock, token = tmp_path / "tokens", ManualClock(), new_token()
    book = TokenBook(path, clock, needed=False)
    assert book.find(token.encode()) is None
    write_tokens(path, [record("airflow", token)])
    clock.advance(1000)
    assert book.find(token.encode()) is not None
    assert TokenBook(path, clock, needed=False).named("airflow") is not None


def test_a_file_that_breaks_leaves_the_tokens_of_before(tmp_path: Path) -> None:
    path, clock, token = tmp_path / "tokens", ManualClock(), new_token()
    write_tokens(path, [record("a", token)])
    book = TokenBook(path, clock)
    path.write_text("nonsense")
    clock.advance(1000)
    assert book.find(token.encode()) is not None


def test_a_file_that_was_refused_is_taken_once_it_is_private(tmp_path: Path) -> None:
    path, clock, leaked = tmp_path / "tokens", ManualClock(), new_token()
    write_tokens(path, [record("leaked", leaked), record("a", new_token())])
    book = TokenBook(path, clock)
    write_tokens(path, [record("a", new_token())])
    path.chmod(0o644)
    with capture_logs() as logs:
        for _ in range(3):
            clock.advance(1000)
            assert book.find(leaked.encode()) is not None
    assert [line["event"] for line in logs] == ["tokens_not_reloaded"], "said once, though tried each second"
    path.chmod(0o600)
    clock.advance(1000)
    assert book.find(leaked.encode()) is None


@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        "[]",
        '{"name": "a"}',
        '{"name": "a", "sha256": "00", "roles": []}',
        '{"name": "../a", "sha256": "' + "0" * 64 + '", "roles": []}',
        '{"name": "a", "sha256": "' + "0" * 64 + '", "roles": ["owner"]}',
        '{"name": "a", "sha256": "' + "0" * 64 + '", "roles": ["reader"], "stores": ["../x"]}',
        '{"name": "a", "sha256": "' + "0" * 64 + '", "roles": ["reader"]}\n' * 2,
        "",
    ],
)
def test_a_file_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "tokens"
    path.touch(0o600)
    path.write_text(text)
    with pytest.raises(ConfigurationError):
        TokenBook(path, ManualClock())


def test_a_file_that_others_can_read_or_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    with pytest.raises(ConfigurationError, match="token add"):
        read_tokens(path)
    write_tokens(path, [record("a", new_token())])
    path.chmod(0o644)
    with pytest.raises(ConfigurationError, match="chmod 600"):
        read_tokens(path)
