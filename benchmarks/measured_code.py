"""Which code a benchmark measures, and whether a result is older than it.

A digest covers what the code does: comments, docstrings and formatting don't count.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_ENGINE = ("storekeeper/engine", "storekeeper/topology", "storekeeper/serdes", "storekeeper/stores/rocksdb.py")
_NODES = (
    "storekeeper/node/query",
    "storekeeper/node/replicas",
    "storekeeper/protocol",
    "storekeeper/stores/rocksdb.py",
)
_CODE: dict[str, tuple[str, ...]] = {
    "app": _ENGINE,
    "as_of": ("storekeeper/snapshots",),
    "changeover": (*_NODES, "storekeeper/node/cluster"),
    "crash": (*_ENGINE, "storekeeper/engine/runtime"),
    "dag_parse": ("dags", "storekeeper_provider"),
    "dsl": ("storekeeper/topology", "storekeeper/serdes"),
    "failover": (*_NODES, "storekeeper/node/cluster", "storekeeper/client"),
    "freshness": (*_ENGINE, *_NODES),
    "growth": _ENGINE,
    "growth_keys": _ENGINE,
    "join": _ENGINE,
    "leaderboard": _NODES,
    "memory": ("storekeeper/stores",),
    "migration": ("storekeeper/generations", *_ENGINE, *_NODES),
    "neighbours": _NODES,
    "order_location": _NODES,
    "pos": (*_ENGINE, "spark_apps/pos.py"),
    "query": _NODES,
    "quix": (*_ENGINE, "spark_apps/pos.py"),
    "restore": ("storekeeper/changelog", "storekeeper/node/replicas", "storekeeper/stores/rocksdb.py"),
    "seeded_restore": (
        *("storekeeper/changelog", "storekeeper/node/replicas", "storekeeper/stores/rocksdb.py"),
        *("storekeeper/snapshots/seeds.py", "storekeeper/snapshots/seal.py"),
    ),
    "session": ("storekeeper/engine/runtime/session.py", "storekeeper/ops/jars"),
    "snapshot": ("storekeeper/snapshots", "storekeeper/changelog"),
    "verify": ("storekeeper/snapshots", "storekeeper/changelog", "storekeeper/verification"),
    "windows": _ENGINE,
}
_PACKAGES: dict[str, tuple[str, ...]] = {
    "storekeeper/node/query": ("uvicorn",),
    "storekeeper/snapshots": ("deltalake", "duckdb", "pyarrow"),
    "storekeeper/stores": ("rocksdict",),
    "storekeeper/stores/rocksdb.py": ("rocksdict",),
    "storekeeper/changelog": ("confluent-kafka",),
    "storekeeper/node/replicas": ("confluent-kafka",),
    "storekeeper/engine": ("confluent-kafka", "pyspark"),
    "storekeeper/engine/runtime/session.py": ("pyspark",),
    "storekeeper/generations": ("pyspark",),
    "storekeeper_provider": ("apache-airflow",),
}


def measured_packages(benchmark: str) -> frozenset[str]:
    """The packages, by the names in the lock, whose version a benchmark's figures depend on most."""
    return frozenset(package for path in _CODE[benchmark] for package in _PACKAGES.get(path, ()))


def code_digest(benchmark: str) -> str:
    """The digest of the code that a benchmark measures, as it is now.

    Raises:
        KeyError: it is not said which code that is.
    """
    digest = hashlib.sha256()
    for file in _files(benchmark):
        digest.update(str(file.relative_to(_ROOT)).encode())
        digest.update(_meaning(file.read_text()).encode())
    return digest.hexdigest()[:16]


def locked_versions() -> dict[str, str]:
    """The version of each package in the lock."""
    lines = (_ROOT / "requirements.lock").read_text().splitlines()
    pinned = (line.split(" ")[0].split("==") for line in lines if "==" in line and not line.startswith((" ", "#")))
    return dict(pinned)


def _files(benchmark: str) -> Iterator[Path]:
    for path in sorted(set(_CODE[benchmark])):
        found = _ROOT / path
        yield from sorted(found.rglob("*.py")) if found.is_dir() else [found]


def _meaning(source: str) -> str:
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(
            node, clean=False
        ):
            node.body = node.body[1:]
    return ast.dump(tree)
