from __future__ import annotations

import random

from spark_apps.new_app.template_app.spec import EVENTS, TEMPLATE_APP, TOTALS
from spark_apps.new_app.template_app.streams import topology
from spark_apps.testkit import plain_driver
from tests.spark_apps.apps.support import AppDriver, raw_rows


def test_events_are_added_up() -> None:
    driver = AppDriver(topology)
    driver.send(EVENTS, "a", {"Amount": 5})
    driver.send(EVENTS, "a", {"Amount": 7})
    driver.run()
    assert driver.values("totals") == {"a": {"Key": "a", "Events": 2, "Total": 12}}


def test_what_is_no_event_becomes_a_dead_letter() -> None:
    driver = AppDriver(topology)
    for key, value in (("a", "nonsense"), (b"\xff", {"Amount": 1}), (None, {"Amount": 1}), ("a", None), ("", "{}")):
        driver.send(EVENTS, key, value)
    driver.send(EVENTS, "a", {"Amount": 1})
    driver.run()
    assert len(driver.reasons()) == 5
    assert driver.values("totals") == {"a": {"Key": "a", "Events": 1, "Total": 1}}


def test_rows_are_those_of_the_processor() -> None:
    chance = random.Random(1)
    old, new = plain_driver(TEMPLATE_APP), AppDriver(topology)
    for _ in range(200):
        key, value = f"k{chance.randrange(9)}", {"Amount": chance.choice([chance.randrange(-50, 50), "x"])}
        old.pipe(EVENTS, key, value)
        new.send(EVENTS, key, value)
    old.run()
    new.run()
    assert new.raw("totals") == raw_rows(old, TOTALS) != {}
    assert len(new.dead_letters) == len(old.output(f"{EVENTS}-dlq")) != 0
