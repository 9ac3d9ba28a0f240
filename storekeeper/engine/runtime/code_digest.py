"""Whether an app's code is the one that it last started with. Free of Spark."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable
from pathlib import Path

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.generations.named import named_generations

_SHARED = "storekeeper.samples"
"""The package of the sample apps, each of which is a module of its own."""


def code_digest(spec: AppSpec) -> str | None:
    """A digest of an app's own source files: its module and the others of its package. None if it has no files."""
    name = spec.module or getattr(spec.describe, "__module__", None)
    module = None if name is None else sys.modules.get(name)
    file = None if module is None else getattr(module, "__file__", None)
    if name is None or file is None:
        return None
    package = name.rpartition(".")[0]
    path = Path(file)
    files = [path] if package in {"", _SHARED} else sorted(path.parent.rglob("*.py"))
    found = hashlib.sha256()
    for one in files:
        content = one.read_bytes()
        found.update(f"{one.relative_to(path.parent)} {len(content)}\n".encode())
        found.update(content)
    return found.hexdigest()


def changed_code(apps: Iterable[AppSpec], settings: AppSettings) -> list[str]:
    """The apps whose code is another one than at their last start, by name."""
    return [app.name for app in apps if _has_changed(app, settings)]


def change_notice(app: str) -> str:
    """What follows from a change of an app's code, in a sentence."""
    return (
        f"the code of {app} has changed since its last start: new rows will follow it, and the rows that are there "
        "follow the old one. If its logic is another one, compute all rows again: docs/how-to/backfill.md"
    )


def _has_changed(app: AppSpec, settings: AppSettings) -> bool:
    _, of_generation = named_generations(app, settings)[0]
    claim = CheckpointOwner.read(of_generation.checkpoint_dir(app.name))
    now = code_digest(app)
    return claim is not None and None not in {claim.code, now} and claim.code != now
