from __future__ import annotations

import random

import pytest
from spark_apps.ticks.spec import PRICES, TICKS

from spark_apps.apps.ticks import topology
from spark_apps.testkit import plain_driver
from tests.spark_apps.apps.support import AppDriver, raw_rows


def prices(driver: AppDriver) -> dict[str, float]:
    return {symbol: row["Price"] for symbol, row in driver.values("prices").items()}


@pytest.fixture
def driver() -> AppDriver:
    return AppDriver(topology, {"ticks_pattern": "HDFC.*|TCS"})


def test_the_last_price_stands_as_it_was_written(driver: AppDriver) -> None:
    for price in ("1250", "1249", "1251.50"):
        driver.send("ticks", "HDFCBANK", price)
    driver.run()
    assert driver.raw("prices") == {b"HDFCBANK": b'{"Symbol":"HDFCBANK","Price":1251.50}'}


def test_a_batch_changes_a_symbol_once(driver: AppDriver) -> None:
    driver = AppDriver(topology, partitions=1)
    for price in ("1", "2"):
        driver.send("ticks", "TCS", price)
    driver.run()
    assert len(driver.changelog("prices")) == 1


def test_the_pattern_must_match_the_whole_symbol(driver: AppDriver) -> None:
    for symbol in ("TCS", "TCSX", "XTCS", "HDFC", "HDFCBANK"):
        driver.send("ticks", symbol, "1")
    driver.run()
    assert set(prices(driver)) == {"TCS", "HDFC", "HDFCBANK"}


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_value_deletes_the_symbol(driver: AppDriver, nothing: str | None) -> None:
    driver.send("ticks", "TCS", "1")
    driver.run()
    driver.send("ticks", "TCS", nothing)
    driver.run()
    assert not prices(driver)
    assert not driver.raw("prices")
    assert driver.reasons() == []


@pytest.mark.parametrize("price", ["1,5", "NaN", "1e5", " 1", "01", "1.123456789", "12345678901"])
def test_what_is_no_price_becomes_a_dead_letter(driver: AppDriver, price: str) -> None:
    driver.send("ticks", "TCS", price)
    driver.run()
    assert "not a number" in driver.reasons()[0][1]
    assert driver.dead_letters[0].record.value == price.encode()
    assert prices(driver) == {}


@pytest.mark.parametrize("key", [None, "", b"\xff"])
def test_a_price_without_a_symbol_becomes_a_dead_letter(driver: AppDriver, key: str | bytes | None) -> None:
    driver.send("ticks", key, "1")
    driver.run()
    assert len(driver.reasons()) == 1


def test_rows_are_those_of_the_processor() -> None:
    chance = random.Random(4)
    old, new = plain_driver(TICKS), AppDriver(topology)
    for number in range(500):
        symbol = chance.choice(["A", "B", "CD", "lower", "TOOLONG"])
        price = chance.choice([f"{number}.5", f"-{number}.00", "0", "0.12345678", None, "", "1", "1", "2"])
        price = "poison" if symbol.isupper() and len(symbol) < 6 and number % 50 == 0 else price
        old.pipe("ticks", symbol, price)
        new.send("ticks", symbol, price)
        if number % 7 == 0:
            old.run()
            new.run()
    old.run()
    new.run()
    assert new.raw("prices") == raw_rows(old, PRICES) != {}
    assert len(new.reasons()) == len(old.output("ticks-dlq")) != 0
