"""The wheel `storekeeper-client`: `storekeeper.client` and the modules that it imports, and no others."""

from __future__ import annotations

import sys
from pathlib import Path

import grimp
from setuptools import setup
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parents[1]
CLIENT = "storekeeper.client"

sys.path.insert(0, str(ROOT))
IMPORTS = grimp.build_graph("storekeeper", exclude_type_checking_imports=True, cache_dir=None)
CLIENTS = {CLIENT, *IMPORTS.find_descendants(CLIENT)}
MODULES = CLIENTS.union(*(IMPORTS.find_upstream_modules(module) for module in CLIENTS))
PACKAGES = {module.rpartition(".")[0] for module in MODULES}


class NeededModules(build_py):
    """Leaves out the modules of a package that the client does not need."""

    def find_package_modules(self, package: str, package_dir: str) -> list[tuple[str, str, str]]:
        """The modules of one package: package, name, file."""
        found = super().find_package_modules(package, package_dir)
        return [each for each in found if each[1] == "__init__" or f"{package}.{each[1]}" in MODULES]


setup(
    cmdclass={"build_py": NeededModules},
    package_dir={"": ".."},
    packages=sorted(PACKAGES),
    package_data={"storekeeper": ["*.pyi", "py.typed"]},
    options={"egg_info": {"egg_base": "."}},
)
