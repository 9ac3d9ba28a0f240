"""Puts the documents of the root folder on the site, and makes links to and from them work there."""

from __future__ import annotations

import re
from pathlib import Path
from posixpath import dirname, normpath, relpath

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

_ROOT = Path(__file__).resolve().parents[1]
_PAGES = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "SECURITY.md": "project/security.md",
}
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]+)")


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Adds the documents of the root folder as pages."""
    for document, page in _PAGES.items():
        files.append(File.generated(config, page, content=(_ROOT / document).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Makes each link lead from the page's place on the site to the target's place there."""
    source = page.file.src_uri
    from_root = {site: document for document, site in _PAGES.items()}.get(source, f"docs/{source}")

    def moved(link: re.Match[str]) -> str:
        target = normpath(f"{dirname(from_root)}/{link[1]}" if dirname(from_root) else link[1])
        on_site = _PAGES.get(target, target.removeprefix("docs/"))
        return f"]({relpath(on_site, dirname(source) or '.')}"

    return _LINK.sub(moved, markdown)
