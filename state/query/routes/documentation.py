"""`/docs`: the OpenAPI document for people, as one page without scripts or external resources."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fastapi import APIRouter, FastAPI, Response

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.5 system-ui, sans-serif }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h2 { margin: 2.2rem 0 .4rem; border-bottom: 1px solid #8884 }
h3 { font: 600 1rem ui-monospace, monospace; margin: 1.4rem 0 .2rem; overflow-wrap: anywhere }
p { margin: .2rem 0 .5rem } table { border-collapse: collapse; width: 100% }
td { border-top: 1px solid #8883; padding: .25rem .7rem .25rem 0; vertical-align: top } td:first-child { width: 12rem }
code { font-family: ui-monospace, monospace } small { opacity: .7 }
"""
_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_POLICY = f"default-src 'none'; style-src 'sha256-{_HASH}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"


def documentation_routes(app: FastAPI) -> APIRouter:
    """The route. It shows the routes that `app` has at the first request."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/docs")
    async def docs() -> Response:
        page = "".join(_page(app.openapi()))
        return Response(page, media_type="text/html", headers={"content-security-policy": _POLICY})

    return routes


def _page(document: Mapping[str, Any]) -> Iterator[str]:
    title = escape(document["info"]["title"])
    yield f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    yield f"</head><body><h1>{title}</h1><p>{escape(document['info'].get('summary', ''))} "
    yield '<a href="/openapi.json">OpenAPI document</a></p>'
    by_tag: dict[str, list[str]] = {}
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            tag = operation.get("tags", ["other"])[0]
            by_tag.setdefault(tag, []).append("".join(_operation(method, path, operation)))
    for tag, operations in by_tag.items():
        yield f"<h2>{escape(tag.capitalize())}</h2>{''.join(operations)}"
    yield "</body></html>"


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> Iterator[str]:
    yield f"<h3>{escape(method.upper())} {escape(path)}</h3><p>{escape(operation.get('description', ''))}</p>"
    parameters = operation.get("parameters", ())
    if parameters:
        yield "<table>"
        for parameter in parameters:
            needed = " <small>needed</small>" if parameter.get("required") else ""
            text = parameter.get("description") or parameter.get("schema", {}).get("description", "")
            yield f"<tr><td><code>{escape(parameter['name'])}</code>{needed}</td><td>{escape(text)}</td></tr>"
        yield "</table>"
