"""Data Docs in a folder: whole by themselves."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import great_expectations as gx
import great_expectations.expectations as gxe
import pandas as pd
import pytest

from storekeeper.quality.checkpoint import Afterwards, run_checkpoint
from tests.architecture.test_tree import ROOT


class Page(HTMLParser):
    """What a page names, and what the server of Data Docs forbids."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.names: list[str] = []
        self.forbidden: list[str] = []
        self.feed(path.read_text())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names += [value or "" for name, value in attrs if name in {"href", "src"}]
        self.forbidden += [name for name, _ in attrs if name == "style" or name.startswith("on")]
        self.forbidden += [tag] if tag in {"script", "style"} else []


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data") / "docs"
    expectations = [
        gxe.ExpectColumnValuesToNotBeNull(column="City", notes="City is always there."),
        gxe.ExpectColumnValuesToBeInSet(column="City", value_set=["Pune"], notes="City is known."),
    ]
    suite = gx.ExpectationSuite("cities", expectations=expectations)
    run_checkpoint(pd.DataFrame({"City": ["Ulhasnagar"]}), suite, Afterwards(lambda _: None, folder))
    return folder


def test_readers_have_the_old_pages_until_the_new_ones_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, frame = tmp_path / "docs", pd.DataFrame({"City": ["Pune"]})
    suite = gx.ExpectationSuite("cities", expectations=[gxe.ExpectColumnToExist(column="City", notes="There.")])
    run_checkpoint(frame, suite, Afterwards(lambda _: None, folder))
    before = {path: path.read_text() for path in folder.rglob("*.html")}

    def full(*_: object) -> None:
        raise OSError("the disk is full")

    with monkeypatch.context() as patched:
        patched.setattr("storekeeper.quality.checkpoint.shutil.copyfile", full)
        with pytest.raises(OSError, match="full"):
            run_checkpoint(frame, suite, Afterwards(lambda _: None, folder))
    assert {path: path.read_text() for path in folder.rglob("*.html")} == before
    run_checkpoint(frame, suite, Afterwards(lambda _: None, folder))
    assert set(folder.rglob("*.html")) != set(before), "a page of each run has a name of its own"
    assert [path.name for path in tmp_path.iterdir()] == ["docs"]


def test_every_page_is_whole_without_another_host(docs: Path) -> None:
    pages = sorted(docs.rglob("*.html"))
    assert [path.relative_to(docs).parts[0] for path in pages] == ["expectations", "index.html", "validations"]
    for path in pages:
        page = Page(path)
        missing = [name for name in page.names if not name.startswith("#") and not (path.parent / name).is_file()]
        assert (missing, page.forbidden) == ([], []), path
        assert "://" not in path.read_text()
        assert any(name.endswith("data_docs.css") for name in page.names)
    assert "url(" not in (docs / "data_docs.css").read_text()


def test_the_first_page_leads_to_the_others_without_a_script(docs: Path) -> None:
    others = {str(path.relative_to(docs)) for path in docs.rglob("*.html")} - {"index.html"}
    assert others <= set(Page(docs / "index.html").names)


def test_met_and_failed_expectations_look_different(docs: Path) -> None:
    [page] = docs.glob("validations/**/*.html")
    styles = (docs / "data_docs.css").read_text()
    for mark in ("text-success", "text-danger"):
        assert mark in page.read_text()
        assert f"td i.{mark}::after" in styles


def test_data_docs_look_as_the_page_stores_does() -> None:
    """The provider is a wheel of its own, so each has a copy of what both share: colours, page and heading."""
    ours = (ROOT / "storekeeper" / "quality" / "docs_templates" / "data_docs.css").read_text()
    theirs = (ROOT / "storekeeper_provider" / "stores_page" / "static" / "stores.css").read_text()
    shared, differs, _ = ours.partition("h4, h5, h6 ")
    assert differs
    assert shared == theirs.partition("h2 ")[0]
