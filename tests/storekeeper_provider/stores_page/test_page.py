"""The page *Stores* in a real browser, before a real control API of a made-up platform, and who may see its data."""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from html import unescape
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
import uvicorn
from playwright.sync_api import expect, sync_playwright

from storekeeper.clock import SystemClock
from storekeeper.node.security.access import Authenticator
from storekeeper.node.security.no_tls import NO_TLS
from storekeeper.ops.control.access import Callers, Gate, own_token
from storekeeper.ops.control.app import make_app
from storekeeper.ops.control.jobs import Jobs
from storekeeper.ops.control.views import PlatformViews
from storekeeper.ops.overview.model import Overview
from storekeeper.ops.settings import PlatformSettings
from storekeeper.quality.settings import QualitySettings
from storekeeper_provider.stores_page.page import page_app
from tests.ops.overview.made_up import EVIL, RESTORING, SEEN
from tests.ops.overview.situations import SITUATIONS, seen

CHROMIUM = shutil.which("chromium")
AWAY = json.dumps({"conn_type": "storekeeper", "host": "http://127.0.0.1:9", "password": "skt_x"})
AWAY_SAID = "the control API at http://127.0.0.1:9 doesn't answer"


class Views(PlatformViews):
    """A platform of which the overview alone is made up."""

    def __init__(self, platform: PlatformSettings, view: Callable[[], Overview] = lambda: SEEN) -> None:
        super().__init__(platform)
        self._overview = view


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
    """The app; with `look_allowed` each caller may see all of it, as if Airflow had said so."""
    app = page_app()
    if look_allowed:
        for route in app.routes:
            for dependency in route.dependant.dependencies:  # type: ignore[attr-defined]
                app.dependency_overrides[dependency.call] = lambda: None
    return app


@pytest.fixture
def views(tmp_path: Path) -> Views:
    return Views(PlatformSettings.load(run_dir=tmp_path))


@pytest.fixture(autouse=True)
def connection(tmp_path: Path, views: Views, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Airflow's connection to a control API, which is served in this process. Its address."""
    token = own_token(tmp_path / "control.token")
    jobs = Jobs(tmp_path / "jobs", {}, clock=SystemClock())
    with served(Gate(make_app(jobs, views, bytes), Callers(token, Authenticator(None)))) as address:
        fields = {"conn_type": "storekeeper", "host": address, "password": token}
        monkeypatch.setenv("AIRFLOW_CONN_STOREKEEPER_DEFAULT", json.dumps(fields))
        yield address


@pytest.fixture
def data_docs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Data Docs of a table, in the run directory that the page uses."""
    monkeypatch.setenv("STOREKEEPER_RUN_DIR", str(tmp_path))
    folder = QualitySettings.of_platform().data_docs_dir("hadoop_export")
    folder.mkdir(parents=True)
    (folder / "index.html").write_text('<link rel="stylesheet" href="data_docs.css"><h1>Data Docs</h1>')
    (folder / "data_docs.css").write_text("h1 { color: rgb(1, 2, 3) }")
    return folder


def got(url: str) -> httpx2.Response:
    """An answer, however long it takes: the page may have to start a process for it."""
    return httpx2.get(url, trust_env=False, verify=NO_TLS, timeout=60)


def test_without_airflows_leave_nothing_is_shown() -> None:
    with served(opened(look_allowed=False)) as address:
        for path in ("glance", "topology/pos", "data_docs/hadoop_export/index.html"):
            assert got(f"{address}/{path}").status_code in {401, 403}
        page = got(f"{address}/")
    assert page.status_code == 200
    assert "rewards" not in page.text
    assert "frame-ancestors 'self'" in page.headers["content-security-policy"]


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_everything_is_shown_as_text_and_then_that_nothing_answers(
    data_docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[str] = []
    with served(opened(look_allowed=True)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("console", lambda said: wrong.append(said.text) if said.type == "error" else None)
        page.goto(f"{address}/")
        expect(page.locator("#stores .bad")).to_have_text("4 of 8")
        expect(page.locator("#stores")).to_contain_text("1,501")
        expect(page.locator("#stores")).to_contain_text("1,501")
        expect(page.locator("#apps .good")).to_have_text("RUNNING")
        expect(page.locator("#apps")).to_contain_text("none in 5 min")
        expect(page.locator("#apps .bad")).to_have_text("FAILED")
        expect(page.locator("#apps")).to_contain_text(EVIL)
        expect(page.locator("#apps")).to_contain_text(RESTORING)
        expect(page.locator("#apps")).to_contain_text("left out")
        expect(page.locator("#verdicts")).to_contain_text("discarded")
        expect(page.locator("#verdicts .bad")).to_have_count(0)
        with page.expect_popup() as opened_page:
            page.get_by_role("link", name="discarded").click()
        expect(opened_page.value.locator("h1")).to_have_css("color", "rgb(1, 2, 3)")
        expect(page.locator("#nodes .bad")).to_have_text("hangs")
        expect(page.locator("#processes")).to_contain_text("terminated by SIGKILL")
        expect(page.locator("#nodes a")).to_have_count(1)  # an address that is none is not a link
        expect(page.locator("#summary")).to_contain_text("1 app is unhealthy")
        assert page.title() == "Stores"
        page.get_by_role("link", name="pos", exact=True).click()
        expect(page.get_by_role("img")).to_contain_text("store rewards")
        expect(page.locator("pre").first).to_contain_text("repartition by shuffle pos-purchases.repartition")
        assert page.title() == "Topology of pos"
        page.get_by_role("link", name="Stores").click()
        expect(page.locator("#summary")).to_contain_text("1 app is unhealthy")
        assert wrong == []
        monkeypatch.setenv("AIRFLOW_CONN_STOREKEEPER_DEFAULT", AWAY)
        expect(page.locator("#problem")).to_have_text(f"{AWAY_SAID} (ConnectError): check that it runs")
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_each_situation_is_told_with_its_reason_and_what_is_well_is_not(views: Views) -> None:
    with served(opened(look_allowed=True)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        for process in SITUATIONS.values():
            views._overview = partial(seen, process)
            page.goto(f"{address}/")
            expect(page.locator("#apps .good")).to_have_text("RUNNING")
            rows = page.locator("#processes tr").filter(has_text=process.name)
            expect(rows).to_have_count(0 if process.healthy else 1)
            if not process.healthy:
                expect(rows).to_contain_text(" ".join(process.detail.split()))
                expect(rows.locator(".bad")).to_have_count(0 if process.state == "STOPPED" else 1)
                expect(rows.locator(".good")).to_have_count(0)
        browser.close()


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_a_phone_shows_every_column() -> None:
    with served(opened(look_allowed=True)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 390, "height": 844})
        page.goto(f"{address}/")
        expect(page.locator("#apps .good")).to_have_text("RUNNING")
        wide = "all => all.filter(e => e.scrollWidth > e.clientWidth).map(e => e.firstElementChild.id)"
        assert page.locator(".scroll").evaluate_all(wide) == [], "nothing is beside the screen"
        dead_letters = page.locator('#apps td[data-title="dead letters"]').nth(2)
        expect(dead_letters).to_be_visible()
        title = dead_letters.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert (title, dead_letters.inner_text()) == ('"dead letters"', "3")
        page.set_viewport_size({"width": 1240, "height": 900})
        expect(page.locator("#apps th").first).to_be_visible()
        browser.close()


def test_an_app_without_a_topology_is_refused_and_a_path_names_no_module() -> None:
    with served(opened(look_allowed=True)) as address:
        export = got(f"{address}/topology/hadoop_export")
        evil = got(f"{address}/topology/{quote('<b>:POS', safe='')}")
        module = got(f"{address}/topology/{quote('spark_apps.pos:POS', safe='')}")
    assert "hadoop_export is not a topology" in export.text
    assert "there is no app &#x27;&lt;b&gt;:POS" in evil.text
    assert "there is no app &#x27;spark_apps.pos:POS" in module.text
    assert {export.status_code, evil.status_code, module.status_code} == {404}


def test_data_docs_are_pages_and_styles_of_their_folder_alone(data_docs: Path) -> None:
    root = data_docs.parent
    secret = root.parent / "secret.html"
    secret.write_text("a secret")
    (data_docs / "link.html").symlink_to(secret)
    (data_docs / "notes.json").write_text("a secret")
    refused = [
        "hadoop_export/../../secret.html",
        "../secret.html",
        "./../../secret.html",
        f"hadoop_export/{secret}",
        "hadoop_export/link.html",
        "hadoop_export/notes.json",
        "hadoop_export/none.html",
        "hadoop_export/\0.html",
        "hadoop_export/",
        "nothing/index.html",
    ]
    with served(opened(look_allowed=True)) as address:
        page = got(f"{address}/data_docs/hadoop_export/index.html")
        answers = {name: got(f"{address}/data_docs/{quote(name).replace('.', '%2E')}") for name in refused}
    assert (page.status_code, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert (page.headers["x-content-type-options"], page.headers["cache-control"]) == ("nosniff", "no-store")
    assert {name: answer.status_code for name, answer in answers.items() if answer.status_code != 404} == {}
    assert [name for name, answer in answers.items() if "secret" in answer.text] == []


def test_a_platform_that_does_not_answer_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_STOREKEEPER_DEFAULT", AWAY)
    with served(opened(look_allowed=True)) as address:
        for path in ("glance", "topology/pos", "data_docs/hadoop_export/index.html"):
            answer = got(f"{address}/{path}")
            assert (answer.status_code, AWAY_SAID in unescape(answer.text)) == (503, True), path
