"""The documents lead somewhere: their links, their headings, and the pages of the site."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.api_reference import pages, unplaced
from tests.architecture.test_tree import ROOT, tracked

DOCUMENTS = tracked(":(glob)*.md", "docs/*.md")
LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")


def anchors(document: Path) -> set[str]:
    """The anchors of a document's headings."""
    text = re.sub(r"^```.*?^```", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


def broken_links(document: Path) -> list[str]:
    """The links of a document that lead to no file or to no heading."""
    found = []
    for target, anchor in LINK.findall(document.read_text()):
        path = (document.parent / target).resolve() if target else document
        if not path.exists() or (anchor and anchor not in anchors(path)):
            found.append(f"{target}#{anchor}" if anchor else target)
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path) -> None:
    assert broken_links(document) == []


NOT_OF_THE_TREE = {
    "benchmarks/NAME.py",
    "benchmarks/results/NAME.json",
    "quality/data_docs/",
    "quality/data_docs/hadoop_export/index.html",
    "quality/resolutions/",
    "quality/resolutions/hadoop_export/",
    "quality/verdicts/",
    "tests/test_page_views.py",
}
"""Paths of a run directory or of the reader's app, and patterns."""
PATH = re.compile(r"`((?:storekeeper|storekeeper_provider|harness|tests|benchmarks|docs|examples)/[\w./-]*)`")


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_that_is_named_exists(document: Path) -> None:
    named = set(PATH.findall(document.read_text())) - NOT_OF_THE_TREE
    assert sorted(path for path in named if not (ROOT / path).exists()) == []


def test_a_broken_link_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# A title\n[a](page.md#a-title) [b](page.md#no-title) [c](no-page.md) [d](https://example.org)\n")
    assert broken_links(page) == ["page.md#no-title", "no-page.md"]


def test_the_pages_of_the_python_api_are_those_of_the_source() -> None:
    assert unplaced() == set()
    stale = [path.name for path, text in pages().items() if path.read_text("utf-8") != text]
    assert stale == [], "run `python -m harness.api_reference`"


def test_every_test_that_contributing_runs_exists() -> None:
    named = re.findall(
        r"^    \S*pytest .*?(tests/[\w./]+)(?:::(\w+))?", (ROOT / "CONTRIBUTING.md").read_text(), flags=re.MULTILINE
    )
    assert len(named) > 2
    assert [path for path, _ in named if not (ROOT / path).exists()] == []
    assert [test for path, test in named if test and f"def {test}(" not in (ROOT / path).read_text()] == []


def test_the_site_shows_every_page() -> None:
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    pages = re.findall(r"[\w/-]+\.md$", nav, flags=re.MULTILINE)
    docs = ROOT / "docs"
    there = {str(path.relative_to(docs)) for path in DOCUMENTS if path.is_relative_to(docs)}
    assert sorted(page for page in pages if not page.startswith("project/")) == sorted(there)


def test_the_lock_of_the_site_names_no_index_and_pins_every_hash() -> None:
    lock = (ROOT / "docs" / "requirements.lock").read_text()
    assert "://" not in lock
    assert "--index" not in lock
    requirements = re.split(r"\n(?=[A-Za-z0-9])", lock.strip())
    assert [r.splitlines()[0] for r in requirements if "==" not in r or "--hash=sha256:" not in r] == []
