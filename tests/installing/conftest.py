"""The distributions, and environments made of their wheels. All are made once."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from harness.distributions import FOLDERS, Built, build
from tests.installing.environment import Environment, Wheels, make_environment, with_other_extras

Install = Callable[[str], Environment]


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Built]:
    """All that we publish."""
    folder = tmp_path_factory.mktemp("dist")
    return {name: build(name, folder) for name in FOLDERS}


@pytest.fixture(scope="session")
def wheels(built: Mapping[str, Built]) -> Wheels:
    """The wheels of it."""
    return {name: one.wheel for name, one in built.items()}


@pytest.fixture(scope="session")
def install(wheels: Wheels, tmp_path_factory: pytest.TempPathFactory) -> Install:
    """Makes the environment of an extra, or of several with commas; `none` is the package without one."""
    bare = make_environment(tmp_path_factory.mktemp("with-none"), "storekeeper", wheels)
    made = {"none": bare}

    def environment(extra: str) -> Environment:
        if extra not in made:
            made[extra] = with_other_extras(tmp_path_factory.mktemp(f"with-{extra}"), bare, extra, wheels)
        return made[extra]

    return environment
