"""The page in a real browser, before made-up clusters."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import ConsoleMessage, Error, Page, Route, expect, sync_playwright

from storekeeper.cli.times import parse_time
from tests.client.served_cluster import served_cluster
from tests.node.query.page.shown_node import QUERIES, STORES, Shown, healthy, served

CHROMIUM = shutil.which("chromium")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
READ_TIME = "async (text) => (await import('/page/query.js')).time(text)"
# Other tests may take the processor.
expect.set_options(timeout=30_000)


@pytest.fixture(scope="module")
def tab() -> Iterator[Page]:
    """One tab for all tests. Another context for each would start processes of the browser."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser.new_page(
            viewport={"width": 1240, "height": 900}, color_scheme="light", timezone_id="Asia/Kolkata"
        )
        browser.close()


@pytest.fixture
def page(tab: Page) -> Iterator[Page]:
    """A page that fails the test if a script fails, or if it calls another address than its own."""
    wrong: list[str] = []

    def script_failed(error: Error) -> None:
        wrong.append(str(error))

    def said(message: ConsoleMessage) -> None:
        if "Content Security" in message.text:
            wrong.append(message.text)

    tab.on("pageerror", script_failed)
    tab.on("console", said)
    yield tab
    asked = {
        request.split("/")[2]
        for request in (tab.evaluate("performance.getEntries().map(e => e.name)"))
        if request.startswith("http")
    }
    assert len(asked) <= 1, asked
    tab.evaluate("localStorage.clear(); sessionStorage.clear()")
    tab.goto("about:blank")
    tab.remove_listener("pageerror", script_failed)
    tab.remove_listener("console", said)
    assert wrong == []


@pytest.fixture
def shown() -> Shown:
    return healthy()


def test_every_replica_is_drawn_where_it_is(page: Page, shown: Shown) -> None:
    with served(shown):
        page.goto(shown.address)
        expect(page.locator(".replica")).to_have_count(sum(map(len, shown.replicas.values())))
        expect(page.locator("#figure-nodes")).to_have_text("3")
        expect(page.locator("#figure-serving-note")).to_have_text("34 partitions of 5 stores")
        drawn = page.locator(".replica").evaluate_all("all => all.map(e => [e.dataset.name, e.getAttribute('class')])")
        assert dict(drawn) == {
            f"{node}/{one['store']}/{one['partition']}": f"replica {one['role']}"
            for node, replicas in shown.replicas.items()
            for one in replicas
        }
        expect(page.locator("#stores tr")).to_have_count(len(STORES))


def test_the_replicas_of_the_live_generation_are_drawn(page: Page, shown: Shown) -> None:
    shown.live["rewards"] = topic = "pos-rewards-changelog-g2"
    for replicas in shown.replicas.values():
        of_store = [one for one in replicas if one["store"] == "rewards"]
        replicas += [{**one, "store": f"rewards@{topic}", "topic": topic} for one in of_store]
        replicas.remove(of_store[0])  # the old ones go
    expected = {
        f"{node}/{one['store']}/{one['partition']}"
        for node, replicas in shown.replicas.items()
        for one in replicas
        if one["store"] != "rewards"
    }
    with served(shown):
        page.goto(shown.address)
        expect(page.locator(".replica")).to_have_count(len(expected))
        assert set(page.locator(".replica").evaluate_all("all => all.map(e => e.dataset.name)")) == expected


def test_it_follows_lag_restores_and_silent_nodes(page: Page, shown: Shown, pictures: Path) -> None:
    origin = {"storekeeper-served-by": "a", "storekeeper-offset-lag": "0", "storekeeper-staleness-ms": "55"}
    shown.answers["/state/ranked/players/top?limit=3"] = ('[{"rank": 1, "key": "4711", "score": 99120}]', origin)
    restoring = shown.replicas["c"][2]
    name = f"c/{restoring['store']}/{restoring['partition']}"
    with served(shown):
        page.goto(shown.address)
        expect(page.locator("#restores")).to_contain_text("Every replica has caught up")
        restoring.update(state="RESTORING", serving=False, offset_lag=1000)
        shown.replicas["b"][0]["offset_lag"] = 4321
        expect(page.locator(f'[data-name="{name}"]')).to_have_class("replica restoring")
        expect(page.locator("#restores")).to_contain_text("1,000 records left")
        restoring["offset_lag"] = 250
        expect(page.locator("#restores progress")).to_have_attribute("value", "0.750")
        expect(page.locator("#restores small")).to_contain_text("about")
        expect(page.locator("#figure-lag")).to_have_text("4,321")
        page.get_by_label("Store", exact=True).select_option("players")
        page.get_by_label("Query", exact=True).select_option("top")
        page.get_by_label("Rows", exact=True).fill("3")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#answer")).to_contain_text("99120")
        page.screenshot(path=pictures / "page.png", full_page=True, animations="disabled")
        shown.suspects.add("b")
        expect(page.locator("#figure-nodes")).to_have_text("2")
        expect(page.locator("#figure-nodes-note")).to_have_text("silent: b")


def test_the_history_of_a_key_is_drawn(page: Page, shown: Shown) -> None:
    path = "/state/history/rewards/c1?key_format=string&from_ms=0&to_ms=1767268800000&limit=10"
    rows = [(3_000, "null"), (2_000, '{"Points": 2.50, "Tier": "gold"}'), (1_000, '{"Points": 1.5, "Visits": 7}')]
    body = ", ".join(f'{{"at_ms": {at_ms}, "key": "c1", "value": {value}}}' for at_ms, value in rows)
    shown.answers[path] = (f"[{body}]", {"storekeeper-served-by": "a", "storekeeper-role": "history"})
    with served(shown):
        page.goto(shown.address)
        page.get_by_label("Store", exact=True).select_option("rewards")
        page.get_by_label("Query", exact=True).select_option("history of a key")
        for label, text in (("Key", "c1"), ("From", "1970-01-01T00:00Z"), ("To", "1767268800000")):
            page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name="Ask").click()
        expect(page.get_by_role("img", name="Points: 1.5 to 2.5")).to_be_visible()
        expect(page.locator(".plot circle")).to_have_count(2)
        expect(page.locator("#answer pre")).to_contain_text("2.50")
        page.get_by_label("Field", exact=True).select_option("Visits")
        expect(page.get_by_role("img", name="Visits: 7 to 7")).to_be_visible()


LOST = "changelog pos-rewards-changelog was deleted: this node keeps the old rows"
FULL = "the disk is full"
WAITS = "1 replica can\u2019t answer"
SITUATIONS: dict[str, tuple[dict[str, object], str, str, str]] = {
    "lost, and served": ({"error": LOST, "offset_lag": None}, "active", LOST, "Every replica has caught up"),
    "lost, and closed": (
        {"state": "FAILED", "serving": False, "error": LOST},
        "silent",
        LOST,
        WAITS,
    ),
    "disk full": ({"state": "SUSPENDED", "serving": False, "error": FULL}, "silent", FULL, WAITS),
    "waits for its turn": ({"state": "OUTDATED", "serving": False}, "silent", "", WAITS),
    "opens": ({"state": "CREATED", "serving": False, "offset_lag": None}, "restoring", "", WAITS),
    "restores": ({"state": "RESTORING", "serving": False, "offset_lag": 9}, "restoring", "", "9 records left"),
    "far behind": ({"offset_lag": 70_000}, "active", "", "Every replica has caught up"),
    "all is well": ({}, "active", "", "Every replica has caught up"),
    "lost, and still empty": (
        {"state": "CREATED", "serving": False, "error": LOST, "offset_lag": None},
        "restoring",
        LOST,
        WAITS,
    ),
    "disk full, and served": ({"state": "SUSPENDED", "error": FULL}, "active", FULL, "Every replica has caught up"),
    "failed, and served": ({"state": "FAILED", "error": "no"}, "active", "no", "Every replica has caught up"),
    "outdated, and served": ({"state": "OUTDATED", "error": "old"}, "active", "old", "Every replica has caught up"),
    "closed": ({"state": "CLOSED", "serving": False, "offset_lag": None}, "silent", "", WAITS),
    "a standby": ({"role": "standby"}, "standby", "", "Every replica has caught up"),
    "a standby restores": (
        {"role": "standby", "state": "RESTORING", "serving": False, "offset_lag": 5},
        "restoring",
        "",
        "5 records left",
    ),
}
"""By name: what a replica says of itself, how it is drawn, what the alarm says, what is said of restores."""


def test_no_situation_of_a_replica_is_shown_as_a_better_one(page: Page, shown: Shown) -> None:
    one = next(replica for replica in shown.replicas["a"] if replica["role"] == "active")
    before, every = dict(one), sum(map(len, shown.replicas.values()))
    with served(shown):
        page.goto(shown.address)
        assert len(SITUATIONS) == 15
        for changes, drawn, alarm, restores in SITUATIONS.values():
            one.update(before)
            one.update(changes)
            name = f"a/{one['store']}/{one['partition']}"
            expect(page.locator(f'[data-name="{name}"]')).to_have_class(f"replica {drawn}")
            expect(page.locator("#restores")).to_contain_text(restores)
            expect(page.locator("#alarm")).to_have_text(alarm)
            expect(page.locator("#alarm")).to_be_visible(visible=bool(alarm))
            expect(page.locator("#figure-serving")).to_have_text(f"{every - (not one['serving'])} / {every}")


def test_it_tells_a_node_that_is_given_no_partitions_yet(page: Page, shown: Shown) -> None:
    shown.settling.add("c")
    with served(shown):
        page.goto(shown.address)
        expect(page.locator("#picture .node-name").nth(2)).to_have_text("c · settling")
        shown.settling.clear()
        expect(page.locator("#picture .node-name").nth(2)).to_have_text("c")


def test_it_tells_a_node_that_did_not_answer_for_so_long_that_others_took_over(page: Page, shown: Shown) -> None:
    held = sum(len(replicas) for name, replicas in shown.replicas.items() if name != "b")
    shown.missing.add("b")
    with served(shown):
        page.goto(shown.address)
        expect(page.locator("#picture .node-name").nth(1)).to_have_text("b · did not answer")
        expect(page.locator("#figure-nodes")).to_have_text("2")
        expect(page.locator("#figure-nodes-note")).to_have_text("did not answer: b")
        expect(page.locator("#figure-serving")).to_have_text(f"{held} / {held}")
        expect(page.locator("#alarm")).to_have_text("Node b at http://127.0.0.1:18102 did not answer for 42 s")
        shown.suspects.add("c")
        expect(page.locator("#figure-nodes-note")).to_have_text("did not answer: b · silent: c")
        shown.missing.clear()
        shown.suspects.clear()
        expect(page.locator("#figure-nodes-note")).to_have_text("all send heartbeats")
        expect(page.locator("#alarm")).to_be_hidden()


def test_queries_are_answered_with_their_origin(page: Page, shown: Shown) -> None:
    headers = {"storekeeper-served-by": "b", "storekeeper-role": "standby", "storekeeper-offset-lag": "7"}
    shown.answers["/state/keyvalue/rewards/a%2Fb?key_format=string"] = (
        '{"key": "a/b", "value": {"points": 12.0300}}',
        headers,
    )
    shown.answers["/state/ranked/players/top?limit=3"] = ('[{"rank": 1, "key": "x"}]', headers)
    with served(shown):
        page.goto(shown.address)
        page.get_by_label("Key", exact=True).fill("a/b")
        page.get_by_label("Key", exact=True).press("Enter")
        expect(page.locator("#answer")).to_contain_text('"points": 12.0300')
        expect(page.locator("#origin")).to_contain_text("b (standby)")
        expect(page.locator("#origin")).to_contain_text("7")
        page.get_by_label("Store", exact=True).select_option("players")
        page.get_by_label("Query", exact=True).select_option("top")
        expect(page.get_by_label("Key", exact=True)).to_be_hidden()
        page.get_by_label("Rows", exact=True).fill("3")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#answer")).to_contain_text('"rank": 1')
        page.get_by_label("Store", exact=True).select_option("rewards")
        page.get_by_label("Key", exact=True).fill("nobody")
        page.get_by_label("Key", exact=True).press("Enter")
        expect(page.locator("#answer .bad")).to_have_text("there is no such key")


def test_each_kind_of_store_is_asked_in_its_way(page: Page, shown: Shown) -> None:
    paths = [path for *_, path in QUERIES]
    shown.answers.update({path: (f'["answer {number}"]', {}) for number, path in enumerate(paths)})
    with served(shown):
        page.goto(shown.address)
        for number, (store, query, key, _) in enumerate(QUERIES):
            page.get_by_label("Store", exact=True).select_option(store)
            page.get_by_label("Query", exact=True).select_option(query)
            for label, text in (("Key", key), ("From", "1000000"), ("To", "2000000"), ("Gap", "30m")):
                if page.get_by_label(label, exact=True).is_visible():
                    page.get_by_label(label, exact=True).fill(text)
            page.get_by_role("button", name="Ask").click()
            expect(page.locator("#answer pre")).to_contain_text(f"answer {number}")
    assert shown.asked == paths


def test_it_tells_that_more_rows_follow(page: Page, shown: Shown) -> None:
    path = "/state/windowed/sales/all/1000000/2000000"
    shown.answers[path] = ('["a page"]', {"storekeeper-next-cursor": "AA"})
    with served(shown):
        page.goto(shown.address)
        page.get_by_label("Store", exact=True).select_option("sales")
        for label, text in (("From", "1000000"), ("To", "2000000")):
            page.get_by_label(label, exact=True).fill(text)
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#origin")).to_contain_text("more rows")
        page.get_by_label("From", exact=True).fill("20260131")
        page.get_by_role("button", name="Ask").click()
        expect(page.locator("#answer .bad")).to_contain_text("is not a time")


@pytest.mark.parametrize(
    "text",
    ["2026-01-31", "2026-01-31T18:00", "2026-01-31 18:00:30", "2026-01-31T18:00:30.250", "2026-01-31T18:00+01:00",
     "2026-01-31T18:00Z", "123456789", "1960-01-01"],
)  # fmt: skip
def test_a_time_means_what_it_means_on_the_command_line(page: Page, shown: Shown, text: str) -> None:
    with served(shown):
        page.goto(shown.address)
        assert page.evaluate(READ_TIME, text) == parse_time(text, 0)


@pytest.mark.parametrize(
    "text", ["2026", "20260131", "2026/01/31", "31 Jan 2026", "2026-02-31", "2026-13-01", "5 h", ""]
)
def test_what_a_browser_would_guess_at_is_no_time(page: Page, shown: Shown, text: str) -> None:
    with served(shown):
        page.goto(shown.address)
        with pytest.raises(Error, match="is not a time"):
            page.evaluate(READ_TIME, text)


def test_a_replica_says_what_it_skipped_and_what_it_does_not_rank(page: Page, shown: Shown) -> None:
    for held in shown.replicas.values():
        for replica in held:
            replica.update(skipped_records=1234, last_skipped_offset=5678, unranked_rows=9)
    with served(shown):
        page.goto(shown.address)
        expect(page.locator(".replica").first).to_be_visible()
        page.locator("#picture").focus()
        page.keyboard.press("ArrowRight")
        expect(page.locator("#detail")).to_contain_text("1,234 changelog records skipped, the last at 5,678")
        expect(page.locator("#detail")).to_contain_text("9 rows without a score")


def test_keys_walk_over_the_picture(page: Page, shown: Shown) -> None:
    with served(shown):
        page.goto(shown.address)
        expect(page.locator(".replica").first).to_be_visible()
        page.locator("#picture").focus()
        page.keyboard.press("ArrowRight")
        first = page.locator(".replica.chosen").get_attribute("data-name")
        expect(page.locator("#detail")).to_contain_text("records behind")
        page.keyboard.press("ArrowRight")
        assert page.locator(".replica.chosen").get_attribute("data-name") != first
        page.keyboard.press("ArrowLeft")
        assert page.locator(".replica.chosen").get_attribute("data-name") == first


def test_a_node_that_is_gone_leaves_the_last_picture_greyed(page: Page, shown: Shown) -> None:
    with served(shown) as server:
        page.goto(shown.address)
        expect(page.locator(".replica").first).to_be_visible()
        server.should_exit = True
        expect(page.get_by_role("alert")).to_contain_text("does not answer")
        expect(page.locator("body")).to_have_class("stale")
        assert page.locator(".replica").count() == sum(map(len, shown.replicas.values()))


def test_a_node_without_a_map_of_the_cluster_shows_what_it_knows(page: Page, shown: Shown) -> None:
    shown.cluster = False
    with served(shown):
        page.goto(shown.address)
        expect(page.locator(".replica")).to_have_count(len(shown.replicas["a"]))
        expect(page.locator("#figure-nodes")).to_have_text("2")


def test_it_asks_for_a_token_and_keeps_it_for_the_session(page: Page, shown: Shown) -> None:
    shown.token = "skt_secret"
    with served(shown):
        page.goto(shown.address)
        page.get_by_label("This node asks for a token").fill("skt_secret")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator(".replica").first).to_be_visible()
        expect(page.locator("#sign-in")).to_be_hidden()
        page.reload()
        expect(page.locator(".replica").first).to_be_visible()
        assert "skt_secret" not in page.content() + page.url


def test_dark_and_light(page: Page, shown: Shown) -> None:
    def paper() -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    with served(shown):
        page.goto(shown.address)
        light = paper()
        page.get_by_role("button", name="Dark or light").click()
        dark = paper()
        assert dark != light
        page.reload()
        assert paper() == dark, "it is remembered"
        page.get_by_role("button", name="Dark or light").click()
        assert paper() == light


def test_a_phone_shows_whole_names_and_no_border_at_its_edge(page: Page, shown: Shown, pictures: Path) -> None:
    before = page.viewport_size
    assert before is not None
    page.set_viewport_size({"width": 390, "height": 800})
    try:
        with served(shown):
            page.goto(shown.address)
            expect(page.locator("#summary")).to_have_text("as node a sees it")
            expect(page.locator("#stores tr")).to_have_count(len(STORES))
            page.screenshot(path=pictures / "phone.png", full_page=True)
            assert page.locator("#catalogue .scroll").evaluate("box => box.scrollWidth - box.clientWidth") == 0
            figures = page.locator(".figure")
            edges = [
                figures.nth(number).evaluate("box => getComputedStyle(box).borderLeftWidth") for number in range(5)
            ]
            assert edges == ["0px", "1px", "0px", "1px", "0px"]
            widths = [round(figures.nth(number).evaluate("box => box.offsetWidth")) for number in (0, 4)]
            assert widths[1] >= 2 * widths[0] - 1, "the last of them has a row to itself"
    finally:
        page.set_viewport_size(before)


def test_a_query_that_comes_before_the_stores_are_known_is_asked_when_they_are(page: Page, shown: Shown) -> None:
    shown.answers["/state/keyvalue/rewards/k?key_format=string"] = ('{"value": 7}', {})
    held: list[Route] = []
    with served(shown):
        page.route("**/state/stores", lambda route: held.insert(0, route), times=1)
        page.goto(shown.address)
        page.get_by_label("Key", exact=True).fill("k")
        page.get_by_label("Key", exact=True).press("Enter")
        expect(page.locator("#answer")).to_have_text("It is asked as soon as the stores are known.")
        held[0].continue_()
        expect(page.locator("#answer")).to_contain_text('"value": 7')


def test_what_a_node_says_is_never_markup(page: Page, shown: Shown) -> None:
    attack = "<img src=x onerror=document.title='broken'>"
    shown.replicas["a"][0].update(error=attack, state="FAILED", serving=False)
    shown.answers["/state/keyvalue/rewards/k?key_format=string"] = (
        f'{{"value": "{attack}"}}',
        {"storekeeper-served-by": attack},
    )
    with served(shown):
        page.goto(shown.address)
        page.get_by_label("Key", exact=True).fill("k")
        page.get_by_label("Key", exact=True).press("Enter")
        expect(page.locator("#answer")).to_contain_text(attack)
        page.locator(".replica.silent").first.hover(force=True)
        expect(page.locator("#detail")).to_contain_text(attack)
        assert page.locator("img").count() == 0
        assert page.title() == "Storekeeper"


def test_swagger_shows_every_operation_and_asks_the_node(page: Page) -> None:
    with served_cluster() as nodes:
        page.goto(nodes.addresses[0] + "/docs")
        operations = sum(map(len, page.request.get(nodes.addresses[0] + "/openapi.json").json()["paths"].values()))
        expect(page.locator(".opblock")).to_have_count(operations)
        operation = page.locator("[id$='-keyvalue']")
        operation.locator(".opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_placeholder("store").fill("rewards")
        operation.get_by_placeholder("key", exact=True).fill("card-07")
        operation.get_by_role("button", name="Execute").click()
        expect(operation.locator(".responses-inner").first).to_contain_text('"Points": 7')


def test_swagger_asks_with_the_token_of_the_page(page: Page, shown: Shown) -> None:
    shown.token = "the-token"
    with served(shown):
        page.goto(shown.address)
        page.get_by_label("This node asks for a token").fill("the-token")
        page.get_by_role("button", name="Use it").click()
        expect(page.locator("#figure-nodes")).to_have_text("3")
        page.goto(shown.address + "/docs")
        operation = page.locator("[id$='lag_state_lag_get']")
        operation.locator(".opblock-summary-control").click()
        operation.get_by_role("button", name="Try it out").click()
        operation.get_by_role("button", name="Execute").click()
        expect(operation.locator(".live-responses-table tbody .response-col_status")).to_contain_text("200")
