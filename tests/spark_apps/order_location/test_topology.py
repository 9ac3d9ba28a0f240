from __future__ import annotations

import random
from typing import Any

import pytest

from spark_apps.order_location.spec import ORDER_LOCATION
from spark_apps.settings import AppSettings
from spark_apps.testkit import Crash, TopologyDriver, plain_driver
from spark_apps.testkit.fixtures import MakeDriver
from tests.spark_apps.events import HOUR_MS, past

T = past(10 * HOUR_MS)
MEMORY = HOUR_MS


def event(order: str, status: str, time_ms: int, latitude: float = 1.5) -> dict[str, Any]:
    return {"OrderNumber": order, "Status": status, "Latitude": latitude, "Longitude": -2.25, "EventTime": time_ms}


def pipe(driver: TopologyDriver, *events: dict[str, Any]) -> None:
    for value in events:
        driver.pipe("order-events", value["OrderNumber"], value)
    driver.run()


def statuses(driver: TopologyDriver) -> dict[str, str]:
    return {order: value["Status"] for order, value in driver.store("order-locations").all().items()}


@pytest.fixture
def driver() -> TopologyDriver:
    return plain_driver(ORDER_LOCATION, AppSettings(order_memory_ms=MEMORY))


def test_an_order_is_where_its_newest_event_was(driver: TopologyDriver) -> None:
    pipe(driver, event("o1", "PLACED", T), event("o1", "ON-THE-WAY", T + 5, 7.5), event("o1", "PICKED-UP", T + 3))
    assert driver.store("order-locations").all() == {
        "o1": {"OrderNumber": "o1", "Status": "ON-THE-WAY", "Latitude": 7.5, "Longitude": -2.25, "UpdatedTime": T + 5}
    }


def test_of_two_events_of_one_time_the_later_one_counts(driver: TopologyDriver) -> None:
    pipe(driver, event("o1", "PLACED", T), event("o1", "PICKED-UP", T))
    assert statuses(driver) == {"o1": "PICKED-UP"}


@pytest.mark.parametrize("end", ["DELIVERED", "CANCELLED"])
def test_an_ended_order_is_removed_and_stays_so(driver: TopologyDriver, end: str) -> None:
    pipe(driver, event("o1", "PLACED", T))
    pipe(driver, event("o1", end, T + 10))
    pipe(driver, event("o1", "ON-THE-WAY", T + 5))
    assert statuses(driver) == {}
    assert driver.output("order-locations")[-1].value is None


def test_an_order_whose_end_comes_first_never_appears(driver: TopologyDriver) -> None:
    pipe(driver, event("o1", "DELIVERED", T + 10), event("o1", "PLACED", T))
    assert statuses(driver) == {}


def test_an_ended_order_is_forgotten_once_older_events_are_late() -> None:
    driver = plain_driver(ORDER_LOCATION, AppSettings(order_memory_ms=MEMORY))
    for value in (event("o1", "DELIVERED", T), event("o2", "PLACED", T + MEMORY + 60_000)):
        driver.pipe("order-events", value["OrderNumber"], value, partition=0)
    driver.run()
    assert b"ko1" not in driver._states[0].rows
    driver.pipe("order-events", "o1", event("o1", "ON-THE-WAY", T - 1), partition=0)
    driver.run()
    assert statuses(driver) == {"o2": "PLACED"}
    assert driver.store("order_location-late").get("0") == {"Partition": 0, "LateRecords": 1}


@pytest.mark.parametrize(
    "wrong", [{"Status": "LOST"}, {"Latitude": 91}, {"Longitude": "1"}, {"OrderNumber": "o2"}, {"EventTime": None}]
)
def test_what_is_no_event_becomes_a_dead_letter(driver: TopologyDriver, wrong: dict[str, Any]) -> None:
    driver.pipe("order-events", "o1", event("o1", "PLACED", T) | wrong)
    driver.run()
    assert len(driver.output("order-events-dlq")) == 1
    assert statuses(driver) == {}


def test_shuffled_orders_on_either_engine(thorough_driver: MakeDriver) -> None:
    driver = thorough_driver(ORDER_LOCATION)
    steps = ["PLACED", "PICKED-UP", "ON-THE-WAY", "DELIVERED"]
    chance = random.Random(5)
    events, expected = [], {}
    for number in range(60):
        reached = chance.randrange(4)
        events += [event(f"o{number}", status, T + 100 * at) for at, status in enumerate(steps[: reached + 1])]
        if reached < 3:
            expected[f"o{number}"] = steps[reached]
    events += chance.sample(events, 30)
    chance.shuffle(events)
    pipe(driver, *events[:100])
    for value in events[100:]:
        driver.pipe("order-events", value["OrderNumber"], value)
    driver.run(Crash.after("sink write"))
    driver.run()
    assert statuses(driver) == expected
    assert driver.store("orders").all() == driver.store("order-locations").all()
