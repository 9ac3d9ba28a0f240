"""Changed code of an app is noticed against its last start."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.code_digest import code_digest
from storekeeper.generations.changed_code import change_notice, changed_code
from storekeeper.samples.pos import POS


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
    yield replace(POS, name="shop_views", module=None, describe=module.topology)
    for name in [name for name in sys.modules if name.startswith("shop_views")]:
        del sys.modules[name]


def test_a_change_of_any_file_of_its_package_is_told_until_the_app_starts_with_it(own: AppSpec, tmp_path: Path) -> None:
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


def test_a_sample_app_is_its_own_module() -> None:
    assert code_digest(POS) == code_digest(POS) is not None
