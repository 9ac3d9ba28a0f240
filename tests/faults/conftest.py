"""How long the fault tests go on."""

from __future__ import annotations

import pytest


@pytest.fixture
def long_run(request: pytest.FixtureRequest) -> bool:
    """Whether to run the full numbers."""
    return bool(request.config.getoption("--long"))
