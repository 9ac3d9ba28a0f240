"""The wheel `storekeeper-client`: `storekeeper.client` and the modules that it imports, and no others."""

from __future__ import annotations

import shutil
import sys
from os.path import relpath
from pathlib import Path

import grimp
from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = Path(__file__).resolve().parent
ROOT = (
    HERE if (HERE / "storekeeper").is_dir() else HERE.parent
)  # an archive of sources has the modules beside this file
CLIENT = "storekeeper.client"
DATA = ["*.pyi", "py.typed"]

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


class OwnModules(sdist):
    """Puts the modules into the archive, though they are in a folder above this one."""

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        """Makes the folder that becomes the archive."""
        modules = {path for path in map(Path, files) if ROOT / "storekeeper" in (HERE / path).resolve().parents}
        super().make_release_tree(base_dir, [path for path in files if Path(path) not in modules])
        for path in modules:
            target = Path(base_dir) / (HERE / path).resolve().relative_to(ROOT)
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(HERE / path, target)


setup(
    cmdclass={"build_py": NeededModules, "sdist": OwnModules},
    package_dir={"": relpath(ROOT, HERE)},
    packages=sorted(PACKAGES),
    package_data={"storekeeper": DATA},
    options={"egg_info": {"egg_base": "."}},
)
