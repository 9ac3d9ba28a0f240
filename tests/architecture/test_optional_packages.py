"""The optional packages are the same in CI, the document and the PATH of `make test-bare`. The provider is one too."""

from __future__ import annotations

import ast
import re

from tests.architecture.test_tree import ROOT, tracked
from tests.bare_path import OPTIONAL

_LATE = ("storekeeper.ops.dag_export",)
"""Modules that need the provider, and are loaded where it is there."""
REQUIRED = {"openssl"}
"""Programs that tests look for and that every Debian has."""


def test_ci_installs_them() -> None:
    (installed,) = re.findall(r"apt-get install -y -q ([\w -]+);", (ROOT / ".ci" / "run").read_text())
    assert set(installed.split()) == OPTIONAL.keys()


def test_the_document_names_them() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text()
    (named,) = re.findall(r"Optional system packages,[^:]*:([^.]*)\.", text)
    assert set(re.findall(r"`([\w-]+)`", named)) == OPTIONAL.keys()


def test_every_program_that_a_test_looks_for_can_be_hidden() -> None:
    looked_for = {
        name
        for path in tracked("tests/test_*.py", "tests/**/*.py")
        for name in re.findall(r"which\(\"([\w-]+)\"", path.read_text())
    }
    assert looked_for - REQUIRED <= set().union(*OPTIONAL.values())
    assert looked_for & set().union(*OPTIONAL.values())


def test_the_product_goes_without_the_provider_until_it_exports_dags() -> None:
    at_import = {
        str(path.relative_to(ROOT))
        for path in tracked("storekeeper/**/*.py")
        if "/template/" not in str(path)
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(("storekeeper_provider", *_LATE))
    }
    assert at_import == {"storekeeper/ops/dag_export.py"}
