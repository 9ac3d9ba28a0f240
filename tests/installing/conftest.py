"""The wheel, and environments made of it. Both are made once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.installing.environment import Environment, build_wheel, make_environment, with_other_extras

Install = Callable[[str], Environment]


@pytest.fixture(scope="session")
def install(tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes the environment of an extra; `none` is the package without one."""
    wheel = build_wheel(tmp_path_factory.mktemp("wheel"))
    bare = make_environment(tmp_path_factory.mktemp("with-none"), wheel, [])
    made = {"none": bare}

    def environment(extra: str) -> Environment:
        if extra not in made:
            made[extra] = with_other_extras(tmp_path_factory.mktemp(f"with-{extra}"), bare, wheel, [extra])
        return made[extra]

    return environment
