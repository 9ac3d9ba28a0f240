"""Tests of `template_app`, without Spark and Kafka unless they say otherwise."""

# ruff: noqa: S101

from __future__ import annotations

from storekeeper.ops.new_project.template.spark_apps.template_app import EVENTS, TEMPLATE_APP, Event
from storekeeper.ops.new_project.template.state.template_app_totals import Totals
from storekeeper.testkit import CrashStep, plain_driver
from storekeeper.testkit.fixtures import MakeDriver


def test_events_are_added_up() -> None:
    """Two events of a key make one row."""
    driver = plain_driver(TEMPLATE_APP)
    driver.pipe(EVENTS, "a", Event(5))
    driver.pipe(EVENTS, "a", Event(7))
    assert driver.rows("template_app_totals") == [("a", Totals("a", 2, 12))]


def test_what_is_no_event_becomes_a_dead_letter() -> None:
    """It is reported, and the others are processed."""
    driver = plain_driver(TEMPLATE_APP)
    for key, value in ((b"a", b"nonsense"), (b"\xff", b'{"Amount": 1}'), (None, b'{"Amount": 1}')):
        driver.append_bytes(EVENTS, key, value)
    driver.pipe(EVENTS, "a", Event(1))
    assert len(driver.dead_letters) == 3
    assert driver.rows("template_app_totals") == [("a", Totals("a", 1, 1))]


def test_a_crash_changes_nothing(topology_driver: MakeDriver) -> None:
    """In plain Python, and with `-m spark` on real Spark and a broker."""
    driver = topology_driver(TEMPLATE_APP)
    driver.pipe(EVENTS, "a", Event(1))
    for step in CrashStep:
        driver.crash_at(step)
        driver.pipe(EVENTS, "a", Event(2))
    assert driver.rows("template_app_totals") == [("a", Totals("a", 4, 7))]
