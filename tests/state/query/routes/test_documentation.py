"""The page at `/docs`."""

from __future__ import annotations

import base64
import hashlib
import re

from fastapi import FastAPI
from fastapi.testclient import TestClient

from state.query.routes.documentation import documentation_routes


def test_it_shows_every_route_and_needs_nothing_from_elsewhere() -> None:
    app = FastAPI(title="<Nodes>", docs_url=None)
    app.include_router(documentation_routes(app))

    @app.get("/things/{name}")
    async def thing(name: str, limit: int = 1) -> str:
        """One thing & more."""
        return name * limit

    with TestClient(app) as client:
        answer = client.get("/docs")

    assert answer.headers["content-type"].startswith("text/html")
    for shown in ("&lt;Nodes&gt;", "GET /things/{name}", "One thing &amp; more.", "<code>limit</code>"):
        assert shown in answer.text
    assert "<script" not in answer.text
    assert "://" not in answer.text
    (style,) = re.findall("<style>(.*?)</style>", answer.text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in answer.headers["content-security-policy"]
