"""Tests of `template_app`, without Spark and Kafka unless they say otherwise."""

# ruff: noqa: S101

from __future__ import annotations

from spark_apps.new_app.template_app.spec import EVENTS, TEMPLATE_APP
from spark_apps.testkit import Crash, plain_driver
from spark_apps.testkit.fixtures import MakeDriver


def test_events_are_added_up() -> None:
    """Two events of a key make one row."""
    driver = plain_driver(TEMPLATE_APP)
    driver.pipe(EVENTS, "a", {"Amount": 5})
    driver.pipe(EVENTS, "a", {"Amount": 7})
    driver.run()
    assert driver.store("totals").all() == {"a": {"Key": "a", "Events": 2, "Total": 12}}


def test_what_is_no_event_becomes_a_dead_letter() -> None:
    """It is reported, and the others are processed."""
    driver = plain_driver(TEMPLATE_APP)
    driver.pipe(EVENTS, "a", "nonsense")
    driver.pipe(EVENTS, b"\xff", {"Amount": 1})
    driver.pipe(EVENTS, "a", {"Amount": 1})
    driver.run()
    assert len(driver.output(f"{EVENTS}-dlq")) == 2
    assert driver.store("totals").get("a") == {"Key": "a", "Events": 1, "Total": 1}


def test_a_crash_changes_nothing(topology_driver: MakeDriver) -> None:
    """In plain Python, and with `-m spark` on real Spark and a broker."""
    driver = topology_driver(TEMPLATE_APP)
    driver.pipe(EVENTS, "a", {"Amount": 1})
    driver.run()
    driver.pipe(EVENTS, "a", {"Amount": 2})
    driver.run(Crash.after("state write"))
    driver.run()
    assert driver.store("totals").get("a") == {"Key": "a", "Events": 2, "Total": 3}
