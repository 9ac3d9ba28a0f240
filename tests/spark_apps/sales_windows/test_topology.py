from __future__ import annotations

import random
from typing import Any

import pytest

from spark_apps.sales_windows.spec import SALES_WINDOWS
from spark_apps.settings import AppSettings
from spark_apps.testkit import Crash, TopologyDriver, plain_driver
from spark_apps.testkit.fixtures import MakeDriver
from state.changelog.partitioner import partition_for
from tests.spark_apps.events import HOUR_MS, MINUTE_MS, Sent, past, untidy
from tests.spark_apps.records.sales import sale
from tests.spark_apps.sales_windows.oracle import late_by_sql, sales_by_sql

TIMES = {"size": HOUR_MS, "hop": 15 * MINUTE_MS, "grace": 10 * MINUTE_MS, "retention": 6 * HOUR_MS}
SETTINGS = {f"sales_{'window' if name == 'size' else name}_ms": value for name, value in TIMES.items()}
START = past(20 * HOUR_MS) // HOUR_MS * HOUR_MS


def invoice(number: str, shop: str, time_ms: int, *lines: tuple[str, int, float]) -> dict[str, Any]:
    items = [
        {"ItemCode": code, "ItemDescription": "", "ItemPrice": 1, "ItemQty": quantity, "TotalValue": value}
        for code, quantity, value in lines or (("i1", 2, 10.25),)
    ]
    return sale(InvoiceNumber=number, StoreID=shop, CreatedTime=time_ms, InvoiceLineItems=items)


def sell(driver: TopologyDriver, *invoices: dict[str, Any]) -> None:
    for value in invoices:
        driver.pipe("pos", value["StoreID"], value)
    driver.run()


def sold(driver: TopologyDriver, store: str = "sales") -> dict[tuple[str, int], tuple[int, int, int]]:
    return {
        key: (value["Sales"], value["Quantity"], round(value["Amount"] * 100))
        for key, value in driver.store(store).all().items()
    }


def late(driver: TopologyDriver) -> dict[str, int]:
    return {key: value["LateRecords"] for key, value in driver.store("sales_windows-late").all().items()}


def day_of_sales(seed: int, count: int = 250) -> list[Sent]:
    chance = random.Random(seed)
    events = []
    for number in range(count):
        shop, time_ms = f"s{chance.randrange(5)}", START + int(chance.random() * 18 * HOUR_MS)
        lines = [
            (f"i{chance.randrange(3)}", chance.randrange(1, 4), chance.randrange(10_000) / 100)
            for _ in range(chance.randrange(1, 4))
        ]
        events.append((shop, f"n{number}", time_ms, invoice(f"n{number}", shop, time_ms, *lines)))
    return untidy(events, seed=seed)


@pytest.fixture
def driver() -> TopologyDriver:
    return plain_driver(SALES_WINDOWS, AppSettings(**SETTINGS))  # type: ignore[arg-type]


def test_a_window_tells_shop_item_bounds_and_sums(driver: TopologyDriver) -> None:
    sell(
        driver, invoice("1", "s1", START), invoice("2", "s1", START + HOUR_MS - 1), invoice("3", "s1", START + HOUR_MS)
    )
    assert driver.store("sales").get(("s1/i1", START)) == {
        "StoreID": "s1",
        "ItemCode": "i1",
        "WindowStart": START,
        "WindowEnd": START + HOUR_MS,
        "Sales": 2,
        "Quantity": 4,
        "Amount": 20.5,
    }
    assert sold(driver)["s1/i1", START + HOUR_MS] == (1, 2, 1025)


def test_a_sale_is_in_every_hopping_window_that_holds_it(driver: TopologyDriver) -> None:
    sell(driver, invoice("1", "s1", START + 20 * MINUTE_MS))
    starts = [START + minutes * MINUTE_MS for minutes in (-30, -15, 0, 15)]
    assert sorted(start for _, start in sold(driver, "sales-hopping")) == starts


def test_an_item_on_two_lines_is_one_sale(driver: TopologyDriver) -> None:
    sell(driver, invoice("1", "s1", START, ("i1", 1, 1.0), ("i1", 2, 2.0), ("i2", 1, 5.0)))
    assert sold(driver) == {("s1/i1", START): (1, 3, 300), ("s1/i2", START): (1, 1, 500)}


def test_a_window_takes_sales_until_its_grace_is_over(driver: TopologyDriver) -> None:
    end = START + HOUR_MS
    sell(driver, invoice("1", "s1", end + TIMES["grace"] - 1), invoice("2", "s1", end - 1))
    assert ("s1/i1", START) in sold(driver)
    assert late(driver) == {}
    sell(driver, invoice("3", "s1", end + TIMES["grace"]), invoice("4", "s1", end - 2))
    assert sold(driver)["s1/i1", START] == (1, 2, 1025)
    assert sum(late(driver).values()) == 1
    assert sold(driver, "sales-hopping")["s1/i1", end - 15 * MINUTE_MS] == (4, 8, 4100)  # it takes both, and goes on


def test_an_invoice_that_comes_twice_counts_once(driver: TopologyDriver) -> None:
    sell(driver, invoice("1", "s1", START), invoice("1", "s1", START))
    sell(driver, invoice("1", "s1", START))
    assert sold(driver) == {("s1/i1", START): (1, 2, 1025)}


def test_a_window_leaves_its_store_after_the_retention(driver: TopologyDriver) -> None:
    end = START + HOUR_MS
    sell(driver, invoice("1", "s1", START), invoice("2", "s1", end + TIMES["retention"] - MINUTE_MS))
    assert ("s1/i1", START) in sold(driver)
    sell(driver, invoice("3", "s1", end + TIMES["retention"]))
    assert ("s1/i1", START) not in sold(driver)


def test_keys_of_odd_shops_stay_apart_and_lie_where_the_key_belongs(driver: TopologyDriver) -> None:
    sell(driver, invoice("1", "a/b", START, ("c", 1, 1.0)), invoice("2", "a", START, ("b/c", 1, 1.0)))
    assert {value["StoreID"]: key for key, value in driver.store("sales").all().items()} == {
        "a/b": ("a%2Fb/c", START),
        "a": ("a/b/c", START),
    }
    for record in driver.output("sales_windows-sales-changelog"):
        assert record.key is not None
        assert record.partition == partition_for(record.key[: record.key.index(b"\0")], 4)


def test_poison_is_left_to_the_app_that_reports_it(driver: TopologyDriver) -> None:
    driver.pipe("pos", "s1", "poison")
    driver.pipe("pos", "s2", invoice("1", "s1", START))
    driver.run()
    assert driver.output("pos-dlq") == []
    assert sold(driver) == {}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch", [1, 17, 1000])
def test_sales_are_those_of_sql_however_batches_fall(driver: TopologyDriver, seed: int, batch: int) -> None:
    sent = day_of_sales(seed)
    for number, record in enumerate(sent):
        driver.pipe("pos", record.key, record.value)
        if number % batch == batch - 1:
            driver.run()
    driver.run()
    expected = sales_by_sql(sent, TIMES)
    assert sold(driver) == expected["sales"]
    assert sold(driver, "sales-hopping") == expected["sales-hopping"]
    assert late(driver) == late_by_sql(sent, TIMES)
    assert late(driver), "the invoices must hold late ones"


def test_a_crash_changes_nothing_on_either_engine(thorough_driver: MakeDriver) -> None:
    driver = thorough_driver(SALES_WINDOWS, **SETTINGS)
    sent = day_of_sales(9)
    for record in sent[:120]:
        driver.pipe("pos", record.key, record.value)
    driver.run()
    for record in sent[120:]:
        driver.pipe("pos", record.key, record.value)
    driver.run(Crash.after("state write"))
    driver.run()
    expected = sales_by_sql(sent, TIMES)
    assert sold(driver) == expected["sales"]
    assert sold(driver, "sales-hopping") == expected["sales-hopping"]
    assert late(driver) == late_by_sql(sent, TIMES)
