"""Which extra of this package brings a module that is missing."""

from __future__ import annotations

import re
from importlib.metadata import requires
from importlib.util import find_spec

_DISTRIBUTIONS = {"airflow": "apache-airflow", "delta": "delta-spark"}
"""Distributions whose name differs from their module's."""
_OF_EXTRA = re.compile(r"^(?P<name>[A-Za-z0-9._-]+).*extra == ['\"](?P<extra>[a-z]+)['\"]")


def require_platform() -> None:
    """Checks that the packages that only the whole platform needs are installed.

    Raises:
        ModuleNotFoundError: one is missing; `missing_package` has the sentence for it.
    """
    if find_spec("supervisor") is None:
        raise ModuleNotFoundError(name="supervisor")


def missing_package(module: str) -> str | None:
    """The sentence about a module that can't be imported; None if no extra brings it.

    Args:
        module: The module's full name, as in `ModuleNotFoundError.name`.
    """
    top = module.partition(".")[0]
    wanted = _DISTRIBUTIONS.get(top, top).replace("_", "-")
    for requirement in requires("storekeeper") or ():
        found = _OF_EXTRA.match(requirement)
        if found and found["name"].replace("_", "-").lower() == wanted:
            return f'this command needs the package {wanted}: run `pip install "storekeeper[{found["extra"]}]"`'
    return None
