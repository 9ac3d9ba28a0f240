"""The wheel, and environments made of it. Both are made once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.installing.environment import Environment, build_wheel, make_environment

Install = Callable[[str], Environment]


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes the environment of an extra; `none` is the package without one."""
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    made: dict[str, Environment] = {}

    def environment(extra: str) -> Environment:
        if extra not in made:
            folder = tmp_path_factory.mktemp(f"with-{extra}")
            made[extra] = make_environment(folder, wheel, [] if extra == "none" else [extra])
        return made[extra]

    return environment
