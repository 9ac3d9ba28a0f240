from __future__ import annotations

import pytest

from spark_apps.settings import AppSettings
from spark_apps.testkit import Crash, TopologyDriver, plain_driver
from spark_apps.testkit.fixtures import MakeDriver
from spark_apps.ticks.spec import TICKS

CHANGELOG = "ticks-prices-changelog"


def prices(driver: TopologyDriver) -> dict[str, float]:
    return {symbol: value["Price"] for symbol, value in driver.store("prices").all().items()}


@pytest.fixture
def driver() -> TopologyDriver:
    return plain_driver(TICKS, AppSettings(ticks_pattern="HDFC.*|TCS"))


def test_the_last_price_stands(driver: TopologyDriver) -> None:
    for price in ("1250.40", "1249", "1251.05"):
        driver.pipe("ticks", "HDFCBANK", price)
    driver.run()
    assert driver.store("prices").get("HDFCBANK") == {"Symbol": "HDFCBANK", "Price": 1251.05}


def test_a_batch_forwards_only_the_last_price(driver: TopologyDriver) -> None:
    driver.pipe("ticks", "TCS", "1")
    driver.pipe("ticks", "TCS", "2")
    driver.run()
    driver.pipe("ticks", "TCS", "3")
    driver.run()
    assert [record.value for record in driver.output(CHANGELOG)] == [
        b'{"Symbol":"TCS","Price":2}',
        b'{"Symbol":"TCS","Price":3}',
    ]


def test_the_pattern_must_match_the_whole_symbol(driver: TopologyDriver) -> None:
    for symbol in ("TCS", "TCSX", "XTCS", "HDFC", "HDFCBANK"):
        driver.pipe("ticks", symbol, "1")
    driver.run()
    assert set(prices(driver)) == {"TCS", "HDFC", "HDFCBANK"}


@pytest.mark.parametrize("nothing", [None, ""])
def test_no_value_deletes_the_symbol(driver: TopologyDriver, nothing: str | None) -> None:
    driver.pipe("ticks", "TCS", "1")
    driver.run()
    driver.pipe("ticks", "TCS", nothing)
    driver.run()
    assert prices(driver) == {}
    assert driver.output(CHANGELOG)[-1].value is None


@pytest.mark.parametrize("price", ["1,5", "NaN", "1e5", " 1", "01", "1.123456789", "12345678901"])
def test_what_is_no_price_becomes_a_dead_letter(driver: TopologyDriver, price: str) -> None:
    driver.pipe("ticks", "TCS", price)
    driver.run()
    [letter] = driver.output("ticks-dlq")
    assert letter.value == price.encode()
    assert dict(letter.headers)["dlq.offset"] == b"0"
    assert prices(driver) == {}


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="no regular expression"):
        AppSettings(ticks_pattern="(")


def test_prices_on_either_engine(topology_driver: MakeDriver) -> None:
    driver = topology_driver(TICKS)
    for number in range(300):
        driver.pipe("ticks", f"S{'ABCDEF'[number % 6]}", f"{number}.5")
    driver.pipe("ticks", "small", "1")
    driver.run()
    driver.pipe("ticks", "SA", None)
    driver.pipe("ticks", "SB", "7")
    driver.pipe("ticks", "SC", "poison")
    driver.run(Crash.after("sink write"))
    driver.run()
    assert prices(driver) == {"SB": 7, "SC": 296.5, "SD": 297.5, "SE": 298.5, "SF": 299.5}
    assert len(driver.output("ticks-dlq")) == 1
