"""Data Docs that need no other host and no script: Great Expectations' content in our own page and style sheet."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from great_expectations import ExpectationSuite
from great_expectations.core import ExpectationSuiteValidationResult
from great_expectations.data_context.types.resource_identifiers import ValidationResultIdentifier
from great_expectations.render.renderer import (
    ExpectationSuitePageRenderer,
    SiteIndexPageRenderer,
    ValidationResultsPageRenderer,
)
from great_expectations.render.view import DefaultJinjaPageView

_TEMPLATES = Path(__file__).with_name("docs_templates")
_STYLES = "data_docs.css"


class OfflineView(DefaultJinjaPageView):
    """Renders a page from our templates, and from Great Expectations' where we have none of the same name."""

    def __init__(self) -> None:
        super().__init__(custom_views_directory=str(_TEMPLATES))
        # Our loader was added last; reversing makes it the first to be searched.
        self.env.loader.loaders.reverse()  # type: ignore[union-attr]

    def render_styling(self, styling: Mapping[str, Any]) -> str:
        """The classes and attributes only: the server of the pages forbids styles within them."""
        return str(super().render_styling({key: value for key, value in styling.items() if key != "styles"}))


@cache
def _view() -> OfflineView:
    """The view of this process, which keeps the templates that it has compiled."""
    return OfflineView()


def build(
    suite: ExpectationSuite, key: ValidationResultIdentifier, result: ExpectationSuiteValidationResult, docs_dir: Path
) -> None:
    """Replaces the Data Docs in `docs_dir` by those of a suite and its result, when the new ones are whole."""
    new, old = (docs_dir.with_name(f".{docs_dir.name}.{which}") for which in ("new", "old"))
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    for name, page in _pages(suite, key, result):
        (new / name).parent.mkdir(parents=True, exist_ok=True)
        (new / name).write_text(_view().render(page), "utf-8")  # type: ignore[no-untyped-call]
    shutil.copyfile(_TEMPLATES / _STYLES, new / _STYLES)
    if docs_dir.exists():
        docs_dir.rename(old)
    new.rename(docs_dir)
    shutil.rmtree(old, ignore_errors=True)


def _pages(
    suite: ExpectationSuite, key: ValidationResultIdentifier, result: ExpectationSuiteValidationResult
) -> Iterator[tuple[str, Any]]:
    """The names and contents of the pages."""
    about_suite = f"expectations/{suite.name}.html"
    about_result = f"validations/{'/'.join(key.to_tuple())}.html"  # type: ignore[no-untyped-call]
    yield about_suite, ExpectationSuitePageRenderer().render(suite)  # type: ignore[no-untyped-call]
    yield about_result, ValidationResultsPageRenderer().render(result)
    checked = {
        "expectation_suite_name": suite.name,
        "expectation_suite_filepath": about_suite,
        "filepath": quote(about_result),
        "validation_success": result.success,
        "run_time": key.run_id.run_time,
        "run_name": key.run_id.run_name,
        "batch_identifier": key.batch_identifier,
        "batch_spec": result.meta["batch_spec"],
        "asset_name": result.asset_name,
    }
    described = {"expectation_suite_name": suite.name, "filepath": quote(about_suite)}
    links = {"site_name": "data_docs", "validations_links": [checked], "expectations_links": [described]}
    yield "index.html", SiteIndexPageRenderer.render(links)  # type: ignore[no-untyped-call]
