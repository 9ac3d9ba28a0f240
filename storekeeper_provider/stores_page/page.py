"""The page *Stores*, topologies and Data Docs, for users who may look into Airflow, as the control API answers them.

The platform is that of connection `storekeeper_default`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path, PurePosixPath

from airflow.api_fastapi.auth.managers.models.resource_details import AccessView
from airflow.api_fastapi.core_api.security import requires_access_view
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from fastapi import Depends, FastAPI, Response

from storekeeper_provider.hook import StorekeeperHook

_STATIC = Path(__file__).with_name("static")
_HTML = "text/html; charset=utf-8"
_CSS = "text/css; charset=utf-8"
_JSON = "application/json"
_FILES = {
    "": ("stores.html", _HTML),
    "stores.js": ("stores.js", "text/javascript; charset=utf-8"),
    "stores.css": ("stores.css", _CSS),
    "icon.svg": ("icon.svg", "image/svg+xml"),
    "icon-dark.svg": ("icon-dark.svg", "image/svg+xml"),
}
_DATA_DOCS = {".html": _HTML, ".css": _CSS}
_HEADERS = {
    # Airflow shows the page in a frame of its own origin.
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_NO_PAGE, _NO_ANSWER = 404, 503


def page_app() -> FastAPI:
    """The ASGI app.

    The files hold no data and need no login; all else needs an Airflow user who may see the cluster's activity.
    """
    app = FastAPI(title="Stores", docs_url=None, redoc_url=None, openapi_url=None)
    allowed = Depends(requires_access_view(AccessView.CLUSTER_ACTIVITY))

    # Synchronous: they wait for the control API, in threads of the server's pool.
    @app.get("/glance", dependencies=[allowed])
    def glance() -> Response:
        try:
            return _answer(json.dumps(StorekeeperHook().overview()).encode(), _JSON)
        except AirflowException as error:
            return _answer(json.dumps({"detail": str(error)}).encode(), _JSON, status=_NO_ANSWER)

    @app.get("/topology/{name}", dependencies=[allowed])
    def topology(name: str) -> Response:
        try:
            return _answer(topology_page(name, StorekeeperHook().topology(name)).encode(), _HTML)
        except AirflowException as error:
            return _answer(refusal_page(name, str(error)).encode(), _HTML, status=_status(error))

    @app.get("/data_docs/{table}/{name:path}", dependencies=[allowed])
    def data_docs(table: str, name: str) -> Response:
        """A page or style sheet of the Data Docs of a table; 404 for all else."""
        media_type = _DATA_DOCS.get(PurePosixPath(name).suffix)
        if media_type is None:
            return _answer(b"There is no such page.", "text/plain; charset=utf-8", status=_NO_PAGE)
        try:
            return _answer(StorekeeperHook().data_docs(table, name), media_type)
        except AirflowException as error:
            return _answer(str(error).encode(), "text/plain; charset=utf-8", status=_status(error))

    for route, (name, media_type) in _FILES.items():
        app.get(f"/{route}", include_in_schema=False)(_file(name, media_type))
    return app


def _status(error: AirflowException) -> int:
    return _NO_PAGE if isinstance(error, AirflowFailException) else _NO_ANSWER


def _file(name: str, media_type: str) -> Callable[[], Response]:
    content = (_STATIC / name).read_bytes()

    def answer() -> Response:
        return _answer(content, media_type, cache="no-cache")

    return answer


def _answer(content: bytes, media_type: str, *, cache: str = "no-store", status: int = 200) -> Response:
    headers = {**_HEADERS, "Cache-Control": cache}
    return Response(content, status, media_type=media_type, headers=headers)


_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <title>{title}</title>
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <link rel="icon" href="../icon.svg">
    <link rel="stylesheet" href="../stores.css">
  </head>
  <body>
    <header>
      <h1>{title}</h1>
      <a href="../">Stores</a>
    </header>
    {content}
  </body>
</html>
"""
_CONTENT = """<div class="scroll">{svg}</div>
    <h2>Operators</h2>
    <pre class="scroll">{text}</pre>
    <details>
      <summary>Mermaid source</summary>
      <pre class="scroll">{mermaid}</pre>
    </details>"""


def topology_page(app: str, topology: Mapping[str, str]) -> str:
    """The page of a topology. `topology` is the control API's answer: `svg`, which escapes names itself, `text` and
    `mermaid`.
    """
    words = {name: escape(topology[name]) for name in ("text", "mermaid")}
    return _page(app, _CONTENT.format(svg=topology["svg"], **words))


def refusal_page(app: str, reason: str) -> str:
    """The page in place of a topology that can't be shown."""
    return _page(app, f"<p>{escape(reason)}</p>")


def _page(app: str, content: str) -> str:
    return _PAGE.format(title=escape(f"Topology of {app}"), content=content)
