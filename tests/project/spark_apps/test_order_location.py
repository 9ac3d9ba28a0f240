from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from spark_apps import order_location
from spark_apps.order_location import ORDER_LOCATION, topology
from state.order_times import ORDER_TIMES
from storekeeper.testkit.fixtures import MakeDriver
from storekeeper.topology import DropReason
from tests.apps.events import HOUR_MS, past
from tests.project.spark_apps.support import AppDriver, send, values

T = past(10 * HOUR_MS)
MEMORY = HOUR_MS


@pytest.fixture(autouse=True)
def _short_memory(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    if "topology_driver" in request.fixturenames:
        return  # tasks run in processes of their own, with the constants as they are
    memory = timedelta(milliseconds=MEMORY)
    monkeypatch.setattr(order_location, "RETENTION", memory)
    monkeypatch.setattr(order_location, "ORDER_TIMES", replace(ORDER_TIMES, retention=memory))


def event(order: str, status: str, time_ms: int, latitude: float = 1.5) -> dict[str, Any]:
    return {"OrderNumber": order, "Status": status, "Latitude": latitude, "Longitude": -2.25, "EventTime": time_ms}


def tell(driver: AppDriver, *events: dict[str, Any]) -> None:
    for value in events:
        driver.send("order-events", value["OrderNumber"], value)
    driver.run()


def statuses(driver: AppDriver) -> dict[str, str]:
    rows = driver.values("order-locations")
    assert rows == driver.values("orders")
    return {order: row["Status"] for order, row in rows.items()}


@pytest.fixture
def driver() -> AppDriver:
    return AppDriver(topology)


def test_an_order_is_where_its_newest_event_was(driver: AppDriver) -> None:
    tell(driver, event("o1", "PLACED", T), event("o1", "ON-THE-WAY", T + 5, 7.5), event("o1", "PICKED-UP", T + 3))
    assert driver.values("order-locations") == {
        "o1": {"OrderNumber": "o1", "Status": "ON-THE-WAY", "Latitude": 7.5, "Longitude": -2.25, "UpdatedTime": T + 5}
    }


def test_of_two_events_of_one_time_the_later_one_counts(driver: AppDriver) -> None:
    tell(driver, event("o1", "PLACED", T), event("o1", "PICKED-UP", T))
    assert statuses(driver) == {"o1": "PICKED-UP"}


@pytest.mark.parametrize("end", ["DELIVERED", "CANCELLED"])
def test_an_ended_order_is_removed_and_stays_so(driver: AppDriver, end: str) -> None:
    tell(driver, event("o1", "PLACED", T))
    tell(driver, event("o1", end, T + 10))
    tell(driver, event("o1", "ON-THE-WAY", T + 5))
    assert statuses(driver) == {}
    assert not driver.raw("orders")


def test_an_order_whose_end_comes_first_never_appears(driver: AppDriver) -> None:
    tell(driver, event("o1", "DELIVERED", T + 10), event("o1", "PLACED", T))
    assert statuses(driver) == {}


def test_an_ended_order_is_forgotten_once_older_events_are_late() -> None:
    driver = AppDriver(topology, partitions=1)
    tell(driver, event("o1", "DELIVERED", T), event("o2", "PLACED", T + MEMORY))
    assert [key.key for key, _ in driver.rows("order-times")] == ["o2"]
    tell(driver, event("o1", "ON-THE-WAY", T))
    assert statuses(driver) == {"o2": "PLACED"}
    assert driver.dropped.by_reason[DropReason.EXPIRED_WINDOW] == 1
    tell(driver, event("o1", "ON-THE-WAY", T + 1))
    assert set(statuses(driver)) == {"o1", "o2"}


def test_an_order_has_one_newest_time(driver: AppDriver) -> None:
    tell(driver, *(event("o1", "PLACED", T + at) for at in (0, 5, 3, 5, 9)))
    assert [row["EventTime"] for row in driver.values("order-times").values()] == [T + 9]


@pytest.mark.parametrize(
    "wrong",
    [
        {"Status": "LOST"}, {"Latitude": 91}, {"Longitude": "1"}, {"OrderNumber": "o2"}, {"EventTime": None},
        {"EventTime": past(-25 * HOUR_MS)},
    ],
)  # fmt: skip
def test_what_is_no_event_becomes_a_dead_letter(driver: AppDriver, wrong: dict[str, Any]) -> None:
    driver.send("order-events", "o1", event("o1", "PLACED", T) | wrong)
    driver.run()
    assert len(driver.reasons()) == 1
    assert "LOST" not in driver.reasons()[0][1]
    assert statuses(driver) == {}


def test_every_node_has_all_locations_from_the_topic_of_their_name(driver: AppDriver) -> None:
    options = driver.specs["order-locations"].options
    assert (options.everywhere, options.changelog) == (True, "order-locations")
    assert not driver.specs["orders"].options.everywhere


def test_orders_come_and_go_in_plain_python_and_on_spark(topology_driver: MakeDriver) -> None:
    driver = topology_driver(ORDER_LOCATION)
    for order in ("o1", "o2"):
        send(driver, "order-events", order, event(order, "PLACED", T))
    driver.run()
    send(driver, "order-events", "o1", event("o1", "DELIVERED", T + 10))
    send(driver, "order-events", "o2", event("o2", "PICKED-UP", T + 10, 7.5))
    driver.run()
    send(driver, "order-events", "o1", event("o1", "ON-THE-WAY", T + 5))
    driver.run()
    assert values(driver, "orders") == values(driver, "order-locations")
    assert {order: row["Latitude"] for order, row in values(driver, "orders").items()} == {"o2": 7.5}
