from __future__ import annotations

import re

import pytest

from spark_apps import ticks
from spark_apps.ticks import TICKS, topology
from storekeeper.testkit.fixtures import MakeDriver
from tests.project.spark_apps.support import AppDriver, send, values


def prices(driver: AppDriver) -> dict[str, float]:
    return {symbol: row["Price"] for symbol, row in driver.values("prices").items()}


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> AppDriver:
    monkeypatch.setattr(ticks, "SYMBOLS", re.compile("HDFC.*|TCS"))
    return AppDriver(topology)


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


def test_a_price_and_its_end_in_plain_python_and_on_spark(topology_driver: MakeDriver) -> None:
    driver = topology_driver(TICKS)
    for symbol, price in (("TCS", "1"), ("HDFC", "1249.50"), ("TCS", "poison")):
        send(driver, "ticks", symbol, price)
    driver.run()
    send(driver, "ticks", "TCS", None)
    driver.run()
    assert values(driver, "prices") == {"HDFC": {"Symbol": "HDFC", "Price": 1249.5}}
    assert [letter.record.value for letter in driver.dead_letters] == [b"poison"]
