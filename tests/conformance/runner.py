"""Runs cases on backends and says how it went."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from tests.conformance import adapters
from tests.conformance.adapter import Adapter, UnsupportedCaseError
from tests.conformance.backend import Backends
from tests.conformance.case import Case
from tests.conformance.topology_adapter import run_topology_case

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one case went on one backend."""

    case: Case
    backend: str
    status: str
    reason: str = ""


@cache
def registry() -> dict[str, type[Adapter]]:
    """The adapter of each store kind, from every module in `adapters/`."""
    found: dict[str, type[Adapter]] = {}
    for module in pkgutil.iter_modules(adapters.__path__):
        namespace = vars(importlib.import_module(f"{adapters.__name__}.{module.name}"))
        for value in namespace.values():
            if isinstance(value, type) and issubclass(value, Adapter) and value.__module__ == namespace["__name__"]:
                found.update(dict.fromkeys(value.kinds, value))
    return found


def run_case(case: Case, backends: Backends) -> Iterator[Outcome]:
    """Runs a case on each backend that it applies to."""
    if case.topology is not None:
        yield topology_outcome(case, "driver", run_topology_case)
        return
    adapter = registry().get(case.store)
    if adapter is None:
        yield Outcome(case, "any", SKIPPED, f"no adapter for store kind {case.store}")
        return
    for kind in adapter.backends:
        if case.applies is not None and kind not in case.applies:
            continue
        if kind in backends.kinds:
            yield _run_on(case, adapter, backends, kind)
        else:
            yield Outcome(case, kind, SKIPPED, f"{kind} is not installed")


def run_cases(cases: Iterable[Case], backends: Backends) -> Iterator[Outcome]:
    """Runs cases in their order."""
    for case in cases:
        yield from run_case(case, backends)


def topology_outcome(case: Case, engine: str, run: Callable[[dict[str, Any]], None]) -> Outcome:
    """Runs a topology case on an engine."""
    if case.topology is None:
        return Outcome(case, engine, SKIPPED, "no topology")
    try:
        run(case.topology)
    except UnsupportedCaseError as unsupported:
        return Outcome(case, engine, SKIPPED, str(unsupported))
    except Exception as error:
        return Outcome(case, engine, FAILED, f"{type(error).__name__}: {error}")
    return Outcome(case, engine, PASSED)


def _run_on(case: Case, adapter: type[Adapter], backends: Backends, kind: str) -> Outcome:
    number = 0
    under_test: Adapter | None = None
    try:
        under_test = adapter(case.config, backends.fresh(kind))
        for number, op in enumerate(case.ops):  # noqa: B007 (named when it fails)
            under_test.run(op)
    except UnsupportedCaseError as unsupported:
        return Outcome(case, kind, SKIPPED, str(unsupported))
    except Exception as error:
        return Outcome(case, kind, FAILED, f"operation {number}: {type(error).__name__}: {error}")
    finally:
        if under_test is not None:
            under_test.close()
    return Outcome(case, kind, PASSED)
