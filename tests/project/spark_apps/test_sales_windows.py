from __future__ import annotations

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from harness.sales import sale
from spark_apps import sales_windows
from spark_apps.sales_windows import SALES_WINDOWS, topology
from state.sales import SALES
from state.sales_hopping import SALES_HOPPING
from state.seen_sales import SEEN_SALES
from storekeeper.apps.settings import AppSettings
from storekeeper.testkit.fixtures import MakeDriver
from storekeeper.topology import CrashStep, StreamsBuilder, TopologyTestDriver
from tests.apps.events import HOUR_MS, MINUTE_MS, Sent, past, untidy
from tests.project.spark_apps.sales_oracle import sales_by_sql
from tests.project.spark_apps.support import AppDriver, send, values

TIMES = {"size": HOUR_MS, "hop": 15 * MINUTE_MS, "grace": 10 * MINUTE_MS, "retention": 48 * HOUR_MS}
START = past(20 * HOUR_MS) // HOUR_MS * HOUR_MS


@pytest.fixture(autouse=True)
def _times(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "topology_driver" in request.fixturenames:
        return  # tasks run in processes of their own, with the constants as they are
    for name in ("size", "hop", "grace"):
        monkeypatch.setattr(sales_windows, name.upper(), timedelta(milliseconds=TIMES[name]))
    seen = replace(SEEN_SALES, retention=timedelta(milliseconds=TIMES["size"] + TIMES["grace"]))
    monkeypatch.setattr(sales_windows, "SEEN_SALES", seen)
    keep(monkeypatch, TIMES["size"] + TIMES["retention"])


def keep(monkeypatch: pytest.MonkeyPatch, retention_ms: int) -> None:
    for name, store in (("SALES", SALES), ("SALES_HOPPING", SALES_HOPPING)):
        monkeypatch.setattr(sales_windows, name, replace(store, retention=timedelta(milliseconds=retention_ms)))


def invoice(number: str, shop: str, time_ms: int, *lines: tuple[str, int, float]) -> dict[str, Any]:
    items = [
        {"ItemCode": code, "ItemDescription": "", "ItemPrice": 1, "ItemQty": quantity, "TotalValue": value}
        for code, quantity, value in lines or (("i1", 2, 10.25),)
    ]
    return sale(InvoiceNumber=number, StoreID=shop, CreatedTime=time_ms, InvoiceLineItems=items)


def sell(driver: AppDriver, *invoices: dict[str, Any]) -> None:
    for value in invoices:
        driver.send("pos", value["StoreID"], value)
    driver.run()


def sold(driver: TopologyTestDriver, store: str = "sales") -> dict[tuple[str, int], tuple[int, int, int]]:
    rows = values(driver, store).items()
    return {key: (row["Sales"], row["Quantity"], round(row["Amount"] * 100)) for key, row in rows}


def day_of_sales(seed: int, count: int = 250) -> list[Sent]:
    """A day's invoices, all in one partition: a window's stream time is that of all that reach it."""
    chance = random.Random(seed)
    events = []
    for number in range(count):
        shop, time_ms = f"s{chance.randrange(5)}", START + int(chance.random() * 18 * HOUR_MS)
        lines = [
            (f"i{chance.randrange(3)}", chance.randrange(1, 4), chance.randrange(10_000) / 100)
            for _ in range(chance.randrange(1, 4))
        ]
        events.append((shop, f"n{number}", time_ms, invoice(f"n{number}", shop, time_ms, *lines)))
    return [record._replace(partition=0, offset=at) for at, record in enumerate(untidy(events, seed=seed))]


@pytest.fixture
def driver() -> AppDriver:
    return AppDriver(topology, partitions=1)


def test_a_window_tells_shop_item_bounds_and_sums(driver: AppDriver) -> None:
    sell(
        driver, invoice("1", "s1", START), invoice("2", "s1", START + HOUR_MS - 1), invoice("3", "s1", START + HOUR_MS)
    )
    assert driver.values("sales")["s1/i1", START] == {
        "StoreID": "s1",
        "ItemCode": "i1",
        "WindowStart": START,
        "WindowEnd": START + HOUR_MS,
        "Sales": 2,
        "Quantity": 4,
        "Amount": 20.5,
    }
    assert sold(driver)["s1/i1", START + HOUR_MS] == (1, 2, 1025)


def test_a_sale_is_in_every_hopping_window_that_holds_it(driver: AppDriver) -> None:
    sell(driver, invoice("1", "s1", START + 20 * MINUTE_MS))
    starts = [START + minutes * MINUTE_MS for minutes in (-30, -15, 0, 15)]
    assert sorted(start for _, start in sold(driver, "sales-hopping")) == starts


def test_an_item_on_two_lines_is_one_sale(driver: AppDriver) -> None:
    sell(driver, invoice("1", "s1", START, ("i1", 1, 1.0), ("i1", 2, 2.0), ("i2", 1, 5.0)))
    assert sold(driver) == {("s1/i1", START): (1, 3, 300), ("s1/i2", START): (1, 1, 500)}


def test_what_is_taken_back_counts_against(driver: AppDriver) -> None:
    sell(driver, invoice("1", "s1", START, ("i1", -3, -7.5)))
    sell(driver, invoice("2", "s1", START, ("i1", 1, 2.5)))
    assert sold(driver) == {("s1/i1", START): (2, -2, -500)}


def test_a_window_takes_sales_until_its_grace_is_over(driver: AppDriver) -> None:
    end = START + HOUR_MS
    sell(driver, invoice("1", "s1", end + TIMES["grace"] - 1), invoice("2", "s1", end - 1))
    assert ("s1/i1", START) in sold(driver)
    assert driver.dropped.total == 0
    sell(driver, invoice("3", "s1", end + TIMES["grace"]), invoice("4", "s1", end - 2))
    assert sold(driver)["s1/i1", START] == (1, 2, 1025)
    assert driver.dropped.total > 0
    assert sold(driver, "sales-hopping")["s1/i1", end - 15 * MINUTE_MS] == (4, 8, 4100)  # it takes both, and goes on


def test_a_sale_that_no_window_takes_is_counted(driver: AppDriver) -> None:
    sell(driver, invoice("1", "s1", START + TIMES["size"] + TIMES["grace"]), invoice("2", "s1", START))
    assert set(sold(driver)) == {("s1/i1", START + HOUR_MS)}
    assert driver.dropped.total == 1


def test_an_invoice_that_comes_twice_counts_once(driver: AppDriver) -> None:
    sell(driver, invoice("1", "s1", START), invoice("1", "s1", START))
    sell(driver, invoice("1", "s1", START))
    assert sold(driver) == {("s1/i1", START): (1, 2, 1025)}


def test_a_window_leaves_its_store_after_the_retention(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = TIMES["size"] + 6 * HOUR_MS
    keep(monkeypatch, kept)
    driver = AppDriver(topology, partitions=1)
    sell(driver, invoice("1", "s1", START), invoice("2", "s1", START + kept - 1))
    assert ("s1/i1", START) in sold(driver)
    sell(driver, invoice("3", "s1", START + kept))
    assert ("s1/i1", START) not in sold(driver)


def test_sales_are_forgotten_once_no_window_takes_them(driver: AppDriver) -> None:
    sell(driver, *(invoice(f"{number}", "s1", START) for number in range(9)))
    sell(driver, invoice("last", "s2", START + TIMES["size"] + TIMES["grace"]))
    assert [key.key for key, _ in driver.rows("seen-sales")] == ["s2/i1"]


def test_keys_of_odd_shops_stay_apart_and_lie_where_the_key_belongs() -> None:
    driver = AppDriver(topology)
    sell(driver, invoice("1", "a/b", START, ("c", 1, 1.0)), invoice("2", "a", START, ("b/c", 1, 1.0)))
    assert {row["StoreID"]: key for key, row in driver.values("sales").items()} == {
        "a/b": ("a%2Fb/c", START),
        "a": ("a/b/c", START),
    }


def test_sales_reach_their_item_by_a_shuffle() -> None:
    streams = StreamsBuilder("sales_windows")
    topology(streams, AppSettings())
    (repartition,) = streams.build().repartitions
    assert repartition.may_be_shuffle


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("s1", "poison", "JSON"),
        ("s2", invoice("1", "s1", START), "the key is not the StoreID"),
        ("s1", invoice("1", "s1", past(-25 * HOUR_MS)), "ahead of the record's own"),
    ],
)
def test_what_is_no_invoice_becomes_a_dead_letter(driver: AppDriver, key: str, value: Any, reason: str) -> None:
    driver.send("pos", key, value)
    driver.run()
    assert reason in driver.reasons()[0][1]
    assert sold(driver) == {}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("batch", [1, 17, 1000])
def test_sales_are_those_of_sql_however_batches_fall(driver: AppDriver, seed: int, batch: int) -> None:
    sent = day_of_sales(seed)
    driver.send_in_batches("pos", sent, batch)
    expected = sales_by_sql(sent, TIMES)
    assert sold(driver) == expected["sales"]
    assert sold(driver, "sales-hopping") == expected["sales-hopping"]
    assert driver.dropped.total, "the invoices must hold late ones"


@pytest.mark.parametrize("step", CrashStep)
def test_a_crash_changes_nothing(driver: AppDriver, step: CrashStep) -> None:
    sent = day_of_sales(9, count=120)
    for record in sent[:60]:
        driver.send("pos", record.key, record.value)
    driver.run()
    driver.crash_at(step, batches_before=1)
    for record in sent[60:]:
        driver.send("pos", record.key, record.value)
    driver.run()
    assert sold(driver) == sales_by_sql(sent, TIMES)["sales"]


def test_windows_take_sales_of_all_shops_in_plain_python_and_on_spark(topology_driver: MakeDriver) -> None:
    driver = topology_driver(SALES_WINDOWS)
    for batch in range(2):
        for shop in ("s1", "s2", "s3"):
            send(driver, "pos", shop, invoice(f"n{batch}", shop, START + batch * HOUR_MS))
            send(driver, "pos", shop, invoice("again", shop, START))
        driver.run()
    expected = {(f"{shop}/i1", START): (2, 4, 2050) for shop in ("s1", "s2", "s3")}
    expected |= {(f"{shop}/i1", START + HOUR_MS): (1, 2, 1025) for shop in ("s1", "s2", "s3")}
    assert sold(driver) == expected
