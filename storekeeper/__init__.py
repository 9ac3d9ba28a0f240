"""State stores for PySpark streams: queryable, migratable, verifiable.

What a program imports is here, and in `storekeeper.errors`, `storekeeper.schemas` and `storekeeper.testkit`. Other
modules may change without notice. `__init__.pyi` has the names, for type checkers and for this module. A name is loaded
when it is first used, so that a program which only queries nodes loads neither stores nor Spark.
"""

import ast
from importlib import import_module
from pathlib import Path
from typing import Any

_IMPORTS = ast.parse(Path(__file__).with_suffix(".pyi").read_text("utf-8")).body
_MODULES = {alias.name: str(one.module) for one in _IMPORTS if isinstance(one, ast.ImportFrom) for alias in one.names}
__all__ = tuple(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != __name__:
            raise
        raise ImportError(f"{name} needs the package storekeeper: only storekeeper-client is installed") from error
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
