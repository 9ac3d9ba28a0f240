"""The page "Stores", topologies and Data Docs, for users who may look into Airflow."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from fastapi import Depends, FastAPI, Response

from deploy.airflow_plugin.topology_page import topology_page
from deploy.overview.collect import platform_overview
from deploy.overview.model import Overview
from deploy.overview.tables import summary, tables
from deploy.settings import PlatformSettings
from quality.settings import QualitySettings

_STATIC = Path(__file__).with_name("static")
_HTML = "text/html; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_FILES = {
    "": ("stores.html", _HTML),
    "stores.js": ("stores.js", "text/javascript; charset=utf-8"),
    "stores.css": ("stores.css", _CSS),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    "icon-dark.svg": ("icon-dark.svg", "image/svg+xml"),
}
_HEADERS = {
    # Airflow shows the page in a frame of its own origin.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def page_app(collect: Callable[[], Overview] | None = None) -> FastAPI:
    """The ASGI app. `collect` is called for each request of data; None: that of this process's platform.

    The files hold no data and need no login; all else needs an Airflow user who may see the cluster's activity.
    """
    app = FastAPI(title="Stores", docs_url=None, redoc_url=None, openapi_url=None)
    allowed = Depends(requires_access_view(AccessView.CLUSTER_ACTIVITY))
    collected = collect or platform_overview(PlatformSettings.load())

    @app.get("/glance", dependencies=[allowed])
    def glance() -> Response:  # synchronous: it waits for nodes, in a thread of the server's pool
        return _answer(json.dumps(shown(collected())).encode(), "application/json", cache="no-store")

    @app.get("/topology/{name}", dependencies=[allowed])
    def topology(name: str) -> Response:
        status, page = topology_page(name)
        return _answer(page.encode(), _HTML, cache="no-store", status=status)

    @app.get("/data_docs/{table}/{name:path}", dependencies=[allowed])
    def data_docs(table: str, name: str) -> Response:
        return _data_docs_file(table, name)

    for route, (name, media_type) in _FILES.items():
        app.get(f"/{route}", include_in_schema=False)(_file(name, media_type))
    return app


def shown(view: Overview) -> dict[str, Any]:
    """The overview as JSON's own types, and as the words that the page shows."""
    return {**view.as_json(), "summary": summary(view), "tables": [asdict(table) for table in tables(view)]}


def _file(name: str, media_type: str) -> Callable[[], Response]:
    content = (_STATIC / name).read_bytes()

    def answer() -> Response:
        return _answer(content, media_type, cache="no-cache")

    return answer


def _data_docs_file(table: str, name: str) -> Response:
    """A page or style sheet of the Data Docs of a table; 404 for all else."""
    folder = QualitySettings.of_platform().data_docs_dir(table)
    try:
        path = (folder / name).resolve()
        media_type = {".html": _HTML, ".css": _CSS}.get(path.suffix)
        if media_type is not None and path.is_relative_to(folder.parent.resolve()):
            return _answer(path.read_bytes(), media_type, cache="no-store")
    except (OSError, ValueError):
        pass  # there is no such file, or no file can have that name
    return _answer(b"There is no such page.", "text/plain; charset=utf-8", cache="no-store", status=404)


def _answer(content: bytes, media_type: str, *, cache: str, status: int = 200) -> Response:
    headers = {**_HEADERS, "Cache-Control": cache}
    return Response(content, status, media_type=media_type, headers=headers)
