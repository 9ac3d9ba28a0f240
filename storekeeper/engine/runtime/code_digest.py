"""A digest of an app's code, which is kept when it starts. Free of Spark."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from storekeeper.apps.spec import AppSpec

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
