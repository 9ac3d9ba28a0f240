"""Runs a program with other constants than it has, where a test needs that in a process of its own.

`python -m harness.adjusted storekeeper.node.query.forwarding:FORWARD_TIMEOUT_MS=1500 -- storekeeper.cli.entry node a`
takes JSON. Processes that the program starts have the constants as they are.
"""

from __future__ import annotations

import importlib
import inspect
import json
import runpy
import sys
from collections.abc import Iterable, Mapping
from typing import Any


def command(constants: Mapping[str, object], module: str, arguments: Iterable[str]) -> list[str]:
    """The arguments of Python that run a module; `constants` by `<module>:<name>`."""
    if not constants:
        return ["-m", module, *arguments]
    pairs = (f"{name}={json.dumps(value)}" for name, value in constants.items())
    return ["-m", "harness.adjusted", *pairs, "--", module, *arguments]


def adjust(pairs: Iterable[str]) -> None:
    """Sets constants of modules, and defaults of their dataclasses' fields (`<module>:<class>.<field>`).

    Raises:
        AttributeError, ValueError: there is none of that name.
    """
    for pair in pairs:
        place, _, value = pair.partition("=")
        name, _, attribute = place.partition(":")
        module = importlib.import_module(name)
        owner, _, field = attribute.partition(".")
        if field:
            _set_default(getattr(module, owner).__init__, field, json.loads(value))
        else:
            getattr(module, attribute)
            setattr(module, attribute, json.loads(value))


def _set_default(init: Any, field: str, value: object) -> None:
    names = [p.name for p in inspect.signature(init).parameters.values() if p.default is not p.empty]
    defaults = list(init.__defaults__)
    defaults[names.index(field)] = value
    init.__defaults__ = tuple(defaults)


if __name__ == "__main__":
    end = sys.argv.index("--")
    adjust(sys.argv[1:end])
    module, *sys.argv[1:] = sys.argv[end + 1 :]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
