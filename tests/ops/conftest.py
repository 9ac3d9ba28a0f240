"""A supervisor of toy apps for each test, and commands in the tests' process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ops.called_command import call  # noqa: F401 (a fixture)
from tests.ops.control.supervised import Supervised, start_supervised


@pytest.fixture
def supervised(tmp_path: Path) -> Iterator[Supervised]:
    """A supervisor whose apps are stopped."""
    running = start_supervised(tmp_path / "run")
    yield running
    running.end()
