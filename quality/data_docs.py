"""Data Docs that need no other host and no script: Great Expectations' content in our own page and style sheet."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from great_expectations.data_context import AbstractDataContext
from great_expectations.render.view import DefaultJinjaPageView

_TEMPLATES = Path(__file__).with_name("docs_templates")
_STYLES = "data_docs.css"
_VIEW = {"module_name": __name__, "class_name": "OfflineView"}


class OfflineView(DefaultJinjaPageView):
    """Renders a page from our templates, and from Great Expectations' where we have none of the same name."""

    def __init__(self) -> None:
        super().__init__(custom_views_directory=str(_TEMPLATES))
        # Ours is the last one, and the first one is asked first.
        self.env.loader.loaders.reverse()  # type: ignore[union-attr]

    def render_styling(self, styling: Mapping[str, Any]) -> str:
        """The classes and attributes only: the server of the pages forbids styles within them."""
        return str(super().render_styling({key: value for key, value in styling.items() if key != "styles"}))


def site(docs_dir: Path) -> dict[str, object]:
    """The configuration of the site that `build` puts into `docs_dir`."""
    return {
        "class_name": "SiteBuilder",
        "show_how_to_buttons": False,
        "store_backend": {"class_name": "TupleFilesystemStoreBackend", "base_directory": str(_new(docs_dir))},
        "site_index_builder": {"class_name": "DefaultSiteIndexBuilder", "view": _VIEW},
        "site_section_builders": {name: {"view": _VIEW} for name in ("expectations", "validations")},
    }


def build(context: AbstractDataContext, docs_dir: Path) -> None:
    """Replaces the Data Docs in `docs_dir` when the new ones are whole. `context` has the `site` of that folder."""
    new, old = _new(docs_dir), docs_dir.with_name(f".{docs_dir.name}.old")
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    context.build_data_docs()
    shutil.rmtree(new / "static")  # fonts and pictures that our pages don't use
    shutil.copyfile(_TEMPLATES / _STYLES, new / _STYLES)
    if docs_dir.exists():
        docs_dir.rename(old)
    new.rename(docs_dir)
    shutil.rmtree(old, ignore_errors=True)


def _new(docs_dir: Path) -> Path:
    return docs_dir.with_name(f".{docs_dir.name}.new")
