"""Serves the files of the pages at `/` and `/docs`: read once; they load nothing from other sites.

The page at `/docs` is Swagger UI, whose files come from the package `fastapi-offline`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from storekeeper.node.security.access import DOCS_PATH, PAGE_PATH

SWAGGER_FILES = ("swagger-ui-bundle.js", "swagger-ui.css")
_MEDIA_TYPES = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS: Mapping[str, str] = {
    "content-security-policy": _POLICY,
    "cross-origin-opener-policy": "same-origin",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    # Revalidated each time (304 if unchanged): a new version of a node never runs with an old page.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class PageFile:
    """One file and its headers."""

    content: bytes
    media_type: str
    etag: str


def page_files() -> Mapping[str, PageFile]:
    """The page's files by name."""
    pages: dict[str, PageFile] = {}
    swagger = files("fastapi_offline").joinpath("static")
    for entry in (
        *files("storekeeper.node.query.page").joinpath("static").iterdir(),
        *map(swagger.joinpath, SWAGGER_FILES),
    ):
        media_type = _MEDIA_TYPES.get(entry.name.rpartition(".")[2])
        if media_type is not None:
            content = entry.read_bytes()
            pages[entry.name] = PageFile(content, media_type, f'"{hashlib.sha256(content).hexdigest()[:16]}"')
    return pages


def page_routes() -> APIRouter:
    """The routes."""
    routes = APIRouter(include_in_schema=False)
    kept = page_files()

    @routes.get("/")
    async def page(request: Request) -> Response:
        return _answer(request, kept["index.html"])

    @routes.get(DOCS_PATH)
    async def docs(request: Request) -> Response:
        return _answer(request, kept["docs.html"])

    @routes.get(PAGE_PATH + "{name}")
    async def page_file(request: Request, name: str) -> Response:
        file = kept.get(name)
        return Response(status_code=404) if file is None else _answer(request, file)

    return routes


def _answer(request: Request, file: PageFile) -> Response:
    headers = {**_HEADERS, "etag": file.etag}
    if request.headers.get("if-none-match") == file.etag:
        return Response(status_code=304, headers=headers)
    return Response(file.content, headers=headers, media_type=file.media_type)
