"""Exit codes: one meaning each, as the documents have them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storekeeper.apps.errors import AppRunningError, UnusableCheckpointError
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.cleanup.cleanup import CleanupRefusedError
from storekeeper.errors import (
    ChangelogError,
    ConfigurationError,
    DiskFullError,
    InvalidArgumentError,
    SnapshotDamagedError,
    StateError,
    StoreUnavailableError,
    UnknownStoreError,
)
from storekeeper.generations.errors import GenerationPendingError, GenerationRefusedError
from storekeeper.program import NO_RESTART, ExitCode, exit_code_of
from storekeeper.quality.errors import ReleaseRefusedError, StagedTableError

_PAGE = Path(__file__).resolve().parents[1] / "docs" / "reference" / "commands.md"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigurationError("x"), 78),
        (UnknownStoreError("x"), 78),
        (UnusableCheckpointError("x"), 78),
        (SnapshotDamagedError("x"), 78),
        (BrokerUnavailableError("x"), 75),
        (AppRunningError("x"), 75),
        (StoreUnavailableError("x"), 75),
        (DiskFullError("x"), 75),
        (GenerationPendingError("x"), 75),
        (GenerationRefusedError("x"), 5),
        (CleanupRefusedError("x"), 5),
        (ReleaseRefusedError("x"), 5),
        (InvalidArgumentError("x"), 2),
        (StagedTableError("x"), 1),
        (ChangelogError("x"), 1),
        (StateError("x"), 1),
    ],
)
def test_the_exit_code_says_what_helps(error: StateError, code: int) -> None:
    assert exit_code_of(error) == code


def test_the_supervisor_stops_where_trying_again_is_of_no_use() -> None:
    assert {int(code) for code in NO_RESTART} == {5, 78}


def test_the_documents_have_every_code_with_its_meaning() -> None:
    rows = re.findall(r"^\| (\d+) \| (.+?) \|", _PAGE.read_text().partition("## Exit codes")[2], flags=re.MULTILINE)
    assert [(int(code), meaning) for code, meaning in rows] == [(int(code), code.meaning) for code in ExitCode]
