"""The page's files: whole, typed, cached by their content, and nothing inline or from elsewhere in them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from storekeeper.node.query.page.routes import SWAGGER_FILES, page_files, page_routes
from storekeeper.node.security.access import PAGE_PATH
from tests.node.query.cluster import Cluster
from tests.node.query.page.shown_node import QUERIES

FILES: Mapping[str, str] = {name: file.content.decode() for name, file in page_files().items()}
PAGES = {"index.html", "docs.html"}


@pytest.fixture(scope="module")
def node() -> TestClient:
    app = FastAPI(docs_url=None)
    app.include_router(page_routes())
    return TestClient(app)


@pytest.mark.parametrize(
    ("path", "media_type"),
    [
        ("/", "text/html; charset=utf-8"),
        ("/docs", "text/html; charset=utf-8"),
        ("/page/swagger-ui.css", "text/css; charset=utf-8"),
        ("/page/page.css", "text/css; charset=utf-8"),
        ("/page/page.js", "text/javascript; charset=utf-8"),
        ("/page/icon.svg", "image/svg+xml"),
    ],
)
def test_files_come_with_their_type_and_are_fetched_once(node: TestClient, path: str, media_type: str) -> None:
    first = node.get(path)
    assert (first.status_code, first.headers["content-type"]) == (200, media_type)
    assert first.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in first.headers["content-security-policy"]
    assert "unsafe" not in first.headers["content-security-policy"]
    again = node.get(path, headers={"if-none-match": first.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize("path", ["/page/nothing.js", "/page/routes.py", "/page/..%2froutes.py", "/page/"])
def test_nothing_else_is_served(node: TestClient, path: str) -> None:
    assert node.get(path).status_code == 404


def test_the_pages_name_only_files_that_exist() -> None:
    named = {name for page in PAGES for name in re.findall(rf'"{PAGE_PATH}([^"]+)"', FILES[page])}
    imported = {name for text in FILES.values() for name in re.findall(r'from "\./([^"]+)"', text)}
    assert named | imported | PAGES == set(FILES)


@pytest.mark.parametrize("name", [name for name in FILES if not name.endswith(".svg") and name not in SWAGGER_FILES])
def test_nothing_is_inline_or_from_elsewhere(name: str) -> None:
    text = FILES[name].replace("http://www.w3.org/2000/svg", "").replace("http://${address}", "")
    assert not re.search(r"https?://|innerHTML|\beval\(|\sstyle=|\son[a-z]+=\"|@import|<style", text)


def test_every_field_of_the_page_has_a_label() -> None:
    html = FILES["index.html"]
    fields = re.findall(r'<(?:input|select)\b[^>]*?\bid="([^"]+)"', html)
    assert len(fields) == 8
    assert [name for name in fields if f'<label for="{name}">' not in html] == []


def test_a_node_answers_what_the_page_asks() -> None:
    async def check() -> None:
        cluster = Cluster()
        for *_, path in QUERIES:
            answer = await cluster.get("a", path.replace("user-sessions", "visits"))
            assert answer.status_code in {200, 404}, (path, answer.text)

    asyncio.run(check())
