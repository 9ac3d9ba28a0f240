"""An engine and our image, for all tests of a run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.container_engine import Engine, NoEngineError, engine_for_tests
from harness.container_images import our_image


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """An engine; a test that needs one skips where there is none."""
    try:
        with engine_for_tests() as found:
            yield found
    except NoEngineError as error:
        pytest.skip(f"no containers: {error}")


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """Our image, built by its Dockerfile."""
    try:
        return our_image(engine)
    except NoEngineError as error:
        pytest.skip(f"no image: {error}")
