"""Changed code of an app is noticed against its last start."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spark_apps.hadoop_export import HADOOP_EXPORT
from spark_apps.pos import POS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.code_digest import _PARSING, code_digest
from storekeeper.generations.running_code import change_notice, changed_code


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppSpec]:
    """An app of one's own, in a package of two files."""
    package = tmp_path / "code" / "shop_views"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "logic.py").write_text("FACTOR = 1\n")
    (package / "app.py").write_text("from shop_views import logic\n\ndef topology(streams, settings): ...\n")
    monkeypatch.syspath_prepend(str(package.parent))
    module = __import__("shop_views.app").app
    yield replace(POS, name="shop_views", describe=module.topology)
    for name in [name for name in sys.modules if name.startswith("shop_views")]:
        del sys.modules[name]


def test_a_change_of_a_file_that_it_imports_is_told_until_the_app_starts_with_it(own: AppSpec, tmp_path: Path) -> None:
    settings = AppSettings.load(run_dir=tmp_path / "run")
    folder = settings.checkpoint_dir(own.name)
    Path(str(folder)).mkdir(parents=True)
    assert changed_code([own], settings) == [], "it has never run"
    CheckpointOwner(own.name, 1, code=code_digest(own)).write(folder)
    assert changed_code([own, POS], settings) == []
    (tmp_path / "code" / "shop_views" / "logic.py").write_text("FACTOR = 2\n")
    assert changed_code([own, POS], settings) == ["shop_views"]
    assert "shop_views" in change_notice("shop_views")
    CheckpointOwner(own.name, 1, code=code_digest(own)).write(folder)
    assert changed_code([own], settings) == []


def test_a_change_of_another_app_of_the_project_is_not_one_of_this(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STOREKEEPER_PROJECT_DIR", str(tmp_path))
    for name, text in {
        "shop/__init__.py": "",
        "shop/bills.py": "from shop_state.bills import BILL\nimport shop.parts.sums as sums\n\ndef topology(): ...\n",
        "shop/other.py": "",
        "shop/parts/__init__.py": "",
        "shop/parts/sums.py": "from .. import deep\n",
        "shop/deep.py": "",
        "shop_state/__init__.py": "",
        "shop_state/bills.py": "BILL = 1\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    app = replace(POS, name="bills", describe=__import__("shop.bills").bills.topology)
    before = code_digest(app)

    def has_changed(name: str) -> bool:
        text = (tmp_path / name).read_text()
        (tmp_path / name).write_text(f"{text}# changed\n")
        changed = code_digest(app) != before
        (tmp_path / name).write_text(text)
        return changed

    parts = (
        "shop/__init__.py",
        "shop/bills.py",
        "shop/parts/sums.py",
        "shop/deep.py",
        "shop_state/bills.py",
        "shop_state/__init__.py",
    )
    assert [name for name in parts if not has_changed(name)] == []
    assert not has_changed("shop/other.py")
    for name in [name for name in sys.modules if name.startswith("shop")]:
        del sys.modules[name]


def test_a_table_is_the_module_of_its_rows() -> None:
    assert code_digest(HADOOP_EXPORT) == code_digest(HADOOP_EXPORT) not in {None, code_digest(POS)}


def test_files_are_parsed_one_at_a_time(own: AppSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    """Apps that share a driver start at once, and this Python's parser fails in two threads at a time."""
    parse, alone = ast.parse, []

    def watched(content: bytes) -> ast.Module:
        alone.append(_PARSING.locked())
        return parse(content)

    with monkeypatch.context() as patched:  # pytest parses too
        patched.setattr(ast, "parse", watched)
        code_digest(own)
    assert len(alone) == 3
    assert all(alone)
