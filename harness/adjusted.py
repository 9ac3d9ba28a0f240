"""Runs a program with other constants than it has, where a test needs that in a process of its own.

`python -m harness.adjusted state.cluster.holding:HANDOVER_S=0.5 -- state.node --name a`: values are JSON. Processes
that the program starts have the constants as they are.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Iterable, Mapping

_PROGRAMS = {"spark_apps": "spark_apps.cli"}
"""Modules whose `main` is in another one."""


def command(constants: Mapping[str, object], module: str, arguments: Iterable[str]) -> list[str]:
    """The arguments of Python that run a module; `constants` by `<module>:<name>`."""
    if not constants:
        return ["-m", module, *arguments]
    pairs = (f"{name}={json.dumps(value)}" for name, value in constants.items())
    return ["-m", "harness.adjusted", *pairs, "--", module, *arguments]


def adjust(pairs: Iterable[str]) -> None:
    """Sets constants of modules; raises AttributeError for one that isn't there."""
    for pair in pairs:
        place, _, value = pair.partition("=")
        name, _, attribute = place.partition(":")
        module = importlib.import_module(name)
        getattr(module, attribute)
        setattr(module, attribute, json.loads(value))


if __name__ == "__main__":
    end = sys.argv.index("--")
    adjust(sys.argv[1:end])
    module, *sys.argv[1:] = sys.argv[end + 1 :]
    sys.exit(importlib.import_module(_PROGRAMS.get(module, module)).main())
