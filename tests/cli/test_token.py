"""`storekeeper token`."""

from __future__ import annotations

import fcntl
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

import pytest
from typer.testing import CliRunner

from storekeeper.cli import token
from storekeeper.cli.entry import app
from storekeeper.clock import ManualClock
from storekeeper.node.security.access import TokenBook, TokenRecord, read_tokens, write_tokens


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    return tmp_path / "secrets" / "tokens"


def test_a_token_is_shown_once_and_only_its_hash_is_kept(path: Path) -> None:
    shown = CliRunner().invoke(app, ["token", "add", "grafana", "--role", "monitor"])
    token = shown.stdout.strip()
    assert shown.exit_code == 0
    assert token.startswith("skt_")
    assert token.encode() not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    found = TokenBook(path, ManualClock()).find(token.encode())
    assert found is not None
    assert (found.name, found.may_read("rewards")) == ("grafana", False)


def test_it_says_who_asks_for_the_token(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told = "nodes ask for no token while `tokens_file` is not set"
    assert told in CliRunner().invoke(app, ["token", "add", "airflow", "--role", "operator"]).stderr
    monkeypatch.setenv("STOREKEEPER_TOKENS_FILE", str(path))
    assert told not in CliRunner().invoke(app, ["token", "add", "another"]).stderr


def test_tokens_are_listed_and_removed(path: Path) -> None:
    for arguments in (["one", "--store", "rewards", "--store", "players"], ["two"]):
        assert CliRunner().invoke(app, ["token", "add", *arguments]).exit_code == 0
    listed = CliRunner().invoke(app, ["token", "list", "--output", "json"]).stdout.splitlines()
    assert [json.loads(line) for line in listed] == [
        {"name": "one", "roles": ["reader"], "stores": ["players", "rewards"]},
        {"name": "two", "roles": ["reader"], "stores": None},
    ]
    shown = CliRunner().invoke(app, ["token", "list"]).stdout.splitlines()
    assert [line.split() for line in shown if "reader" in line] == [
        ["one", "reader", "players", "rewards"],
        ["two", "reader", "all"],
    ]
    assert CliRunner().invoke(app, ["token", "remove", "one"]).exit_code == 0
    assert TokenBook(path, ManualClock()).named("one") is None


def test_of_two_changes_at_once_the_second_waits(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    locked: list[bool] = []

    def written(file: Path, records: Sequence[TokenRecord]) -> None:
        descriptor = os.open(file.parent, os.O_RDONLY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked.append(False)
        except BlockingIOError:
            locked.append(True)
        finally:
            os.close(descriptor)
        write_tokens(file, records)

    monkeypatch.setattr(token, "write_tokens", written)
    for words in (["add", "one"], ["add", "two"], ["remove", "one"]):
        assert CliRunner().invoke(app, ["token", *words]).exit_code == 0
    assert locked == [True] * 3
    assert [record.caller.name for record in read_tokens(path)] == ["two"]


def test_an_empty_list_says_so_and_prints_no_data(path: Path) -> None:
    listed = CliRunner().invoke(app, ["token", "list"])
    assert (listed.exit_code, listed.stdout) == (0, "")
    assert f"there are no tokens in {path}" in listed.stderr


@pytest.mark.parametrize(
    "arguments", [["add", "one"], ["add", "../x"], ["add", "x", "--store", "a/b"], ["remove", "no"]]
)
def test_what_cannot_work_is_told_and_changes_nothing(path: Path, arguments: list[str]) -> None:
    CliRunner().invoke(app, ["token", "add", "one"])
    before = path.read_bytes()
    refused = CliRunner().invoke(app, ["token", *arguments])
    assert refused.exit_code == 78
    assert len(refused.stderr.strip().splitlines()) >= 1
    assert path.read_bytes() == before
