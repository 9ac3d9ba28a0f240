"""An app of one's own is changed: by a backfill that is approved in Airflow's form, and by the rows of
migrate-state.md's *If something goes wrong*, followed to the letter.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from storekeeper.generations.journal import JournalFile
from storekeeper.ops.airflow_home import AIRFLOW_USER, read_airflow_password
from storekeeper.ops.waiting import eventually
from tests.integration.airflow_browser import CHROMIUM, airflow_browser
from tests.integration.running_platform import RUN_S
from tests.integration.shop import APP, BOUGHT_BY, CODE, FIRST, KEYS, LATER, SECONDS, Records, Shop, shop_in
from tests.integration.spending_app import ORDERS
from tests.watched_airflow import WatchedAirflow

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.airflow, pytest.mark.timeout(3600)),
    pytest.mark.long("test_backfill.py has the text of a plan, test_handover.py and test_seeding.py the refusals"),
]

DOUBLED = CODE.replace("order.amount * customer.factor", "2 * order.amount * customer.factor")
"""With other logic: each order costs twice as much."""
MIGRATED = """

class Levelled(Spent, frozen=True):
    level: int = 0


def with_level(spent: Levelled, order: Priced) -> Levelled:
    total = spent.total + order.amount
    return Levelled(spent.orders + 1, total, total // 100)


def levelled(streams: StreamsBuilder, _: AppSettings) -> None:
    customers = streams.table(CUSTOMERS, Customer, store="customers")
    orders = streams.stream(ORDERS, Order).join(customers, priced)
    orders.group_by_key().aggregate(Levelled, with_level, store=Store("spent", Levelled))


def convert(key: bytes, value: bytes) -> list[tuple[bytes, bytes]]:
    row = msgspec.json.decode(value)
    return [(key, msgspec.json.encode({**row, "level": LEVEL}))]


MIGRATIONS = (
    StoreMigration(
        name="spent-level",
        store="spent",
        summary="Adds how many hundreds the total has.",
        to_version=2,
        convert="spending_app:convert",
        describe="spending_app:levelled",
    ),
)
SPENDING = topology_app("spending", topology, title="What customers spend", migrations="spending_app:MIGRATIONS")
"""


WITHOUT_REGIONS = "".join(line for line in CODE.splitlines(keepends=True) if "group_by(region_of)" not in line)
"""An app that repartitions can't copy its rows."""


def with_migration(level: str) -> str:
    """The code of the app with a migration whose conversion computes the level so."""
    head = WITHOUT_REGIONS.replace("\nimport msgspec\n", "\nimport msgspec\n\nfrom storekeeper import StoreMigration\n")
    return head + MIGRATED.replace("LEVEL", level)


def install(shop: Shop, code: str) -> None:
    """Installs other code, and has the app run it."""
    (shop.run_dir.parent / "spending_app.py").write_text(code)
    shop.output("app", "upgrade", APP)


def doubled(orders: Records) -> Records:
    """Orders whose rows by the old logic are those of `orders` by the new one."""
    return [(key, re.sub(rb"[0-9]+", lambda found: b"%d" % (2 * int(found[0])), value)) for key, value in orders]


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium on the PATH")
def test_a_backfill_runs_as_the_form_of_its_approval_said(tmp_path: Path, pictures: Path) -> None:
    with shop_in(tmp_path) as shop:
        _backfill(shop, pictures)


def _backfill(shop: Shop, pictures: Path) -> None:
    install(shop, DOUBLED)
    assert shop.equals(FIRST), "old rows follow the old logic"
    login, address = (AIRFLOW_USER, read_airflow_password(shop.layout) or ""), shop.airflow
    with airflow_browser(address, login, pictures) as browser, WatchedAirflow(address, *login) as airflow:
        browser.trigger_by_form("migrate_state", {"app": APP}, {"since": "beginning"}, "accept_differences")
        newest = airflow.newest_run("migrate_state")
        run = newest["dag_run_id"]
        assert newest["conf"] | {"app": APP, "since": "beginning", "accept_differences": True} == newest["conf"]
        assert eventually(lambda: "approve" in airflow.questions("migrate_state", run), RUN_S, poll_s=0.5)
        said = airflow.questions("migrate_state", run)["approve"]
        assert said["subject"] == f"Recompute the stores of {APP}?"
        assert "Nothing changes" not in said["body"]
        shown = (
            "starts empty and reads the input again from its beginning",
            f"input orders: {len(FIRST):,} records are read",
            f"input customers: {len(BOUGHT_BY):,} records are read",
            "rows that differ from the live ones are accepted: it takes over without a further question",
        )
        browser.see_question("migrate_state", run, "approve", said["subject"], *shown)
        assert JournalFile(shop.run_dir, APP).read() is None, "nothing is done before the answer"
        browser.answer_question("Approve")
        assert eventually(lambda: airflow.task_states("migrate_state", run)["hand_over"] == "success", 3 * RUN_S)
    journal = JournalFile(shop.run_dir, APP).read()
    assert journal is not None
    made = journal.live_generation
    assert (made.number, made.since, made.migrations, made.seed_rows) == (2, "beginning", (), 0), "it reads the input"
    assert shop.equals(doubled(FIRST)), "all rows are computed again"
    shop.write(ORDERS, LATER)
    assert shop.equals(doubled(FIRST + LATER))


def test_what_goes_wrong_in_a_migration_is_put_right_by_its_table(tmp_path: Path) -> None:
    with shop_in(tmp_path, WITHOUT_REGIONS) as shop:
        _put_right(shop)


def _put_right(shop: Shop) -> None:
    change = ("generation", "seed", APP, "--migration", "spent-level")
    install(shop, with_migration("1 // 0"))
    assert "converted" in shop.output(*change, code=5)
    assert f"{APP}-next" not in shop.process.call("status").stdout, "nothing was started"

    install(shop, with_migration("row['total'] // 10"))
    shop.output(*change)
    begin_beside(shop)
    shop.write(ORDERS, LATER)
    assert shop.equals(FIRST + LATER)
    assert "differ" in shop.output("generation", "handover", APP, code=5)
    assert shop.equals(FIRST + LATER), "the live generation goes on"
    shop.output("generation", "retire", APP)

    install(shop, with_migration("row['total'] // 100"))
    shop.output(*change)
    begin_beside(shop)
    shop.output("generation", "handover", APP)
    assert eventually(lambda: levels(shop) == {True}, SECONDS, poll_s=1)
    shop.output("generation", "rollback", APP)
    assert shop.equals(FIRST + LATER)
    shop.output("generation", "retire", APP, "--delete")
    assert not {topic for topic in shop.topics() if topic.startswith("spending-spent-changelog-g3")}
    assert shop.equals(FIRST + LATER)


def begin_beside(shop: Shop) -> None:
    """Has the supervisor run the new generation, and waits until it has read what there is."""
    shop.output("app", "start", f"{APP}-next")


def levels(shop: Shop) -> set[bool]:
    """Whether rows have the level that their totals ask for."""
    with shop.client() as client:
        rows = list(client.key_value("spent").all(page_rows=1000))
    return {row.value.get("level") == row.value["total"] // 100 for row in rows} if len(rows) == KEYS else set()
