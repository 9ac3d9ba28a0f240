"""Airflow as its users meet it: a browser without a window."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from playwright.sync_api import Page, ViewportSize, expect, sync_playwright

CHROMIUM = shutil.which("chromium")
_FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
_SIZE = ViewportSize(width=1180, height=800)
_WAIT_MS = 60_000


@dataclass(frozen=True, slots=True)
class AirflowBrowser:
    """A signed-in user; pictures of what it sees go to `pictures`."""

    address: str
    page: Page
    pictures: Path

    def trigger_by_form(
        self, dag_id: str, choices: Mapping[str, str], texts: Mapping[str, str] = MappingProxyType({}), *switches: str
    ) -> None:
        """Opens the params form of a DAG, and starts the run.

        Args:
            dag_id: the DAG.
            choices: values of its drop-down lists, by param.
            texts: texts to write, by param.
            *switches: the params to switch on.
        """
        self.page.goto(f"{self.address}/dags/{dag_id}")
        self.page.get_by_role("button", name="Trigger").first.click()
        form = self.page.get_by_role("dialog")
        for param, value in choices.items():
            form.locator(f"[id='element_{param}']").click()
            self.page.get_by_role("option", name=value, exact=True).click()
        for param, text in texts.items():
            form.locator(f"[id='element_{param}']").fill(text)
        for param in switches:
            switch = form.locator(f"[name='element_{param}']")
            switch.locator("xpath=ancestor::label[1]").click()  # the box itself is hidden
            expect(switch).to_be_checked()
        self.shoot(f"airflow-{dag_id}")
        form.get_by_role("button", name="Trigger").click()
        expect(form).to_have_count(0, timeout=_WAIT_MS)

    def see_stores(self, *texts: str) -> None:
        """Opens the page "Stores" from the navigation, and waits until it shows the texts."""
        self.page.goto(f"{self.address}/")
        self.page.get_by_role("link", name="Stores", exact=True).click()
        stores = self.page.frame_locator("iframe").locator("body")
        for text in texts:
            expect(stores).to_contain_text(text, timeout=_WAIT_MS)
        self.shoot("airflow-stores")

    def see_question(self, dag_id: str, run_id: str, task_id: str, *texts: str) -> None:
        """Opens the question that a task asks, and waits until it shows the texts."""
        self.page.goto(f"{self.address}/dags/{dag_id}/runs/{run_id}/tasks/{task_id}/required_actions")
        for text in texts:
            expect(self.page.get_by_text(text).first).to_be_visible(timeout=_WAIT_MS)
        self.shoot("airflow-approval")

    def answer_question(self, option: str) -> None:
        """Answers the question that is seen by one of its buttons."""
        self.page.get_by_role("button", name=option, exact=True).click()
        expect(self.page.get_by_role("button", name=option, exact=True)).to_be_disabled(timeout=_WAIT_MS)

    def shoot(self, name: str) -> None:
        """Keeps a picture of what is seen."""
        self.page.screenshot(path=self.pictures / f"{name}.png", animations="disabled")


@contextmanager
def airflow_browser(address: str, login: tuple[str, str], pictures: Path) -> Iterator[AirflowBrowser]:
    """A browser whose user has signed in."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=_FLAGS)
        with chromium.new_context(viewport=_SIZE, color_scheme="light") as context:
            context.set_default_timeout(_WAIT_MS)
            page = context.new_page()
            page.goto(f"{address}/")
            page.locator("input[name=username]").fill(login[0])
            page.locator("input[name=password]").fill(login[1])
            page.keyboard.press("Enter")
            page.wait_for_url(re.compile(rf"^{re.escape(address)}/?(?:\?.*|dags.*)?$"))
            yield AirflowBrowser(address, page, pictures)
        chromium.close()
