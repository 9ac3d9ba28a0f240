"""A digest of an app's code, which is kept when it starts. Free of Spark."""

from __future__ import annotations

import ast
import hashlib
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from storekeeper.apps.settings import ProjectSettings
from storekeeper.apps.spec import AppSpec

_PRODUCT = "storekeeper"
_PARSING = threading.Lock()
"""Held while a file is parsed: apps that share a driver start at once, and Python before 3.11.8 and 3.12.2 fails when
two threads parse at a time (https://github.com/python/cpython/issues/106905)."""


def code_digest(spec: AppSpec) -> str | None:
    """A digest of an app's own source files. None if it has no files.

    They are the module of its topology, or of its table's rows, and the modules of its project that this one imports,
    and so on. A project is the folder of `project_dir`; elsewhere it is the module's package.
    """
    entry = spec.describe if spec.table_sink is None else spec.table_sink.row
    name = getattr(entry, "__module__", None)
    file = None if name is None else getattr(sys.modules.get(name), "__file__", None)
    if name is None or file is None:
        return None
    root = Path(file).resolve().parents[name.count(".") + (Path(file).name == "__init__.py")]
    whole = root == ProjectSettings().project_dir
    digest = hashlib.sha256()
    for path in sorted(_files_of(Path(file).resolve(), root, None if whole else name.partition(".")[0])):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(root)} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _files_of(first: Path, root: Path, package: str | None) -> set[Path]:
    """The files that a file imports, and the file itself; those of one package, or of all packages in `root`."""
    files: set[Path] = set()
    left = [first]
    while left:
        path = left.pop()
        if path not in files:
            files.add(path)
            left += _imported_files(path, root, package)
            left += [
                file for folder in path.parents if root in folder.parents and (file := folder / "__init__.py").is_file()
            ]
    return files


def _imported_files(path: Path, root: Path, package: str | None) -> Iterator[Path]:
    for name in _imported_names(path, root):
        top = name.partition(".")[0]
        if top == _PRODUCT or package not in {None, top}:
            continue
        at = root.joinpath(*name.split("."))
        yield from (file for file in (at.with_name(f"{at.name}.py"), at / "__init__.py") if file.is_file())


def _imported_names(path: Path, root: Path) -> Iterator[str]:
    """The modules that a file names in imports, and what it imports from them, which may be modules too."""
    here = path.relative_to(root).with_suffix("").parts
    content = path.read_bytes()
    try:
        with _PARSING:
            tree = ast.parse(content)
    except SyntaxError:  # it was not imported
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = here[: len(here) - node.level] if node.level else ()
            module = ".".join([*above, *([node.module] if node.module else [])])
            yield from (module, *(f"{module}.{alias.name}" for alias in node.names))
