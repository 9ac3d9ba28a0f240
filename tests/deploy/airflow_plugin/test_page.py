"""The page "Stores" in a real browser, before a made-up platform, and who may see its data."""

from __future__ import annotations

import asyncio
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import httpx2
import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

from deploy.airflow_plugin.page import page_app
from tests.deploy.overview.made_up import EVIL, RESTORING, SEEN

CHROMIUM = shutil.which("chromium")


@contextmanager
def served(app: object) -> Iterator[str]:
    listening = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="off", ws="none"))  # type: ignore[arg-type]
    thread = threading.Thread(target=lambda: asyncio.run(server.serve([listening])), daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    server.should_exit = True
    thread.join(10)
    listening.close()


def opened(look_allowed: bool) -> object:
    """The app; with `look_allowed` whoever asks may see all of it, as if Airflow had said so."""
    app = page_app(lambda: SEEN)
    if look_allowed:
        for route in app.routes:
            for dependency in route.dependant.dependencies:  # type: ignore[attr-defined]
                app.dependency_overrides[dependency.call] = lambda: None
    return app


def test_without_airflows_leave_nothing_is_told() -> None:
    with served(opened(look_allowed=False)) as address:
        for path in ("glance", "topology/pos"):
            assert httpx2.get(f"{address}/{path}", trust_env=False).status_code in {401, 403}
        page = httpx2.get(f"{address}/", trust_env=False)
    assert page.status_code == 200
    assert "rewards" not in page.text
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_everything_is_shown_as_text() -> None:
    wrong: list[str] = []
    with served(opened(look_allowed=True)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(f"{address}/")
        expect(page.locator("#stores .bad")).to_have_text("4 of 8")
        expect(page.locator("#stores")).to_contain_text("~5,691")
        expect(page.locator("#stores")).to_contain_text("1,501")
        expect(page.locator("#apps .good")).to_have_text("RUNNING")
        expect(page.locator("#apps")).to_contain_text("none in 5 min")
        expect(page.locator("#apps .bad")).to_have_text("FAILED")
        expect(page.locator("#apps")).to_contain_text(EVIL)
        expect(page.locator("#apps")).to_contain_text(RESTORING)
        expect(page.locator("#apps")).to_contain_text("left out")
        expect(page.locator("#verdicts")).to_contain_text("discarded")
        expect(page.locator("#verdicts .bad")).to_have_count(0)
        expect(page.locator("#nodes .bad")).to_have_text("hangs")
        expect(page.locator("#processes")).to_contain_text("terminated by SIGKILL")
        expect(page.locator("#nodes a")).to_have_count(1)  # an address that is none is no link
        expect(page.locator("#summary")).to_contain_text("1 app is ill")
        assert page.title() == "Stores"
        page.get_by_role("link", name="pos", exact=True).click()
        expect(page.get_by_role("img")).to_contain_text("store rewards")
        expect(page.locator("pre").first).to_contain_text("repartition by shuffle pos-purchases.repartition")
        assert page.title() == "Topology of pos"
        page.get_by_role("link", name="Stores").click()
        expect(page.locator("#summary")).to_contain_text("1 app is ill")
        browser.close()
    assert wrong == []


def test_an_app_without_a_topology_is_told_and_a_path_names_no_module() -> None:
    with served(opened(look_allowed=True)) as address:
        export = httpx2.get(f"{address}/topology/hadoop_export", trust_env=False)
        evil = httpx2.get(f"{address}/topology/{quote('<b>:POS', safe='')}", trust_env=False)
        module = httpx2.get(f"{address}/topology/{quote('spark_apps.apps.pos:POS', safe='')}", trust_env=False)
    assert "hadoop_export is not a topology" in export.text
    assert "There is no app &lt;b&gt;:POS" in evil.text
    assert "There is no app spark_apps.apps.pos:POS" in module.text
    assert {export.status_code, evil.status_code, module.status_code} == {404}
