"""Runs topology cases on real Spark and Kafka.

A case's events become few batches. A task of several topics takes its records by their timestamps, so a batch ends
where that order would be another one than that of the events. What comes out is compared at the end of the case,
step by step as the case expects it.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, contextmanager
from itertools import count, groupby
from math import inf, lcm
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.broker import start_broker
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.engine.runtime.session import start_session, stop_spark
from storekeeper.testkit.spark_driver import SparkDriver
from tests.conformance.adapter import UnsupportedCaseError
from tests.conformance.case import Case, plain
from tests.conformance.topology_adapter import CaseTopology, TopologyCase, refuse_other_choices

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = count()


def run_on_spark(case: dict[str, Any], spark: SparkSession, bootstrap: str, folder: Path) -> None:
    """Runs one case.

    Raises:
        MismatchError: it came out differently.
        UnsupportedCaseError: it can't be run on Spark, or asks for what the DSL does not offer.
    """
    refuse_other_choices(case)
    if not may_run_on_spark(case):
        raise UnsupportedCaseError("a case of several partitions, of the wall clock or of an error")
    app = f"{case['id']}-{next(_numbers)}"
    case = _later(_with_topics_of(app, case))
    spec = topology_app(app, CaseTopology(json.dumps(case)), title=case["id"])
    driver = SparkDriver(spec, AppSettings(kafka_bootstrap=bootstrap), spark, folder / app, partitions=1)
    with closing(driver):
        under_test = TopologyCase(case, driver)
        for batch in batches(case["events"], alone=_is_read_in_between(case)):
            for source, key, value, timestamp_ms, *_ in batch:
                driver.append(under_test.topic_of(source), key, value, timestamp_ms)
            driver.run()
        for output in case["topology"]["outputs"]:
            found = plain(driver.read(under_test.output(output)))
            for step in case.get("expect") or ():
                if output in step:
                    wanted = step[output]
                    length = len(wanted["any_order"] if isinstance(wanted, dict) else wanted)
                    under_test.compare(f"after {step['after']}, {output}", found[:length], wanted)
                    found = found[length:]
            under_test.compare(f"at the end, {output}", found, [])
        under_test.compare_rows()


@contextmanager
def spark_and_broker() -> Iterator[Callable[[dict[str, Any]], None]]:
    """Starts both; gives what runs a case on them."""
    with ExitStack() as started:
        folder = Path(started.enter_context(tempfile.TemporaryDirectory()))
        broker = start_broker(folder / "broker")
        started.callback(broker.stop)
        spark = start_session("conformance", AppSettings(run_dir=folder))
        started.callback(stop_spark, spark.sparkContext)
        yield lambda case: run_on_spark(case, spark, broker.bootstrap, folder)


def may_run_on_spark(case: dict[str, Any]) -> bool:
    """Whether a case has one partition and needs no wall clock, no error and no overlapping windows at time 0."""
    events, topology = case["events"], case["topology"]
    if "expect_error" in case or any(event[0] == "advance" for event in events):
        return False
    if any(map(_overlaps, topology["steps"])) and not all(event[3] for event in events):
        return False
    return all(source["partitions"] == 1 for source in topology["sources"].values())


def _overlaps(step: dict[str, Any]) -> bool:
    """Whether a step has windows that overlap: at time 0 there are fewer of them than later."""
    window = step.get("window", {})
    return step["op"] == "sliding" or window.get("advance_ms", inf) < window.get("size_ms", 0)


def third(cases: Iterable[Case]) -> list[Case]:
    """A third of the topology cases of each kind that we must pass and that can run on Spark, at least one."""
    needed = [case for case in cases if case.topology is not None and case.level in {"must", "adapt"}]
    fitting = [case for case in needed if case.topology is not None and may_run_on_spark(case.topology)]
    kinds = groupby(fitting, lambda case: re.sub(r"-\d+$", "", case.id))
    return [case for _, of_kind in kinds for case in list(of_kind)[::3]]


def batches(events: list[list[Any]], *, alone: bool = False) -> Iterator[list[list[Any]]]:
    """The events in groups that a task takes in their order, whatever topics they are of; or each alone."""
    batch: list[list[Any]] = []
    due: dict[str, int] = {}
    for event in events:
        source, time_ms = event[0], event[3]
        others = [time for name, time in due.items() if name != source]
        if (batch and alone) or (others and max(time_ms, due.get(source, time_ms)) <= max(others)):
            yield batch
            batch, due = [], {}
        batch.append(event)
        due[source] = max(time_ms, due.get(source, time_ms))
    yield batch


def _later(case: dict[str, Any]) -> dict[str, Any]:
    """The case in which no record has the timestamp 0, which Kafka's clients take for none.

    All times move by a multiple of its windows' sizes.
    """
    if all(event[3] for event in case["events"]):
        return case
    windows = [step["window"] for step in case["topology"]["steps"] if step["op"] == "windowed"]
    by_ms = lcm(*(window[name] for window in windows for name in ("size_ms", "advance_ms") if name in window))
    expect = [
        {name: wanted if name == "after" else _moved(wanted, by_ms) for name, wanted in step.items()}
        for step in case.get("expect") or ()
    ]
    stores = {
        step: [[_moved_key(key, by_ms), value] for key, value in rows]
        for step, rows in case.get("expect_final_store", {}).items()
    }
    events = [[*event[:3], event[3] + by_ms, *event[4:]] for event in case["events"]]
    return {**case, "events": events, "expect": expect, "expect_final_store": stores}


def _moved(wanted: Any, by_ms: int) -> Any:
    if isinstance(wanted, dict):
        return {"any_order": _moved(wanted["any_order"], by_ms)}
    return [
        [_moved_key(key, by_ms), value, time + by_ms if isinstance(time, int) else time] for key, value, time in wanted
    ]


def _moved_key(key: Any, by_ms: int) -> Any:
    is_windowed = isinstance(key, list) and len(key) == 3
    return [key[0], key[1] + by_ms, key[2] + by_ms] if is_windowed else key


def _is_read_in_between(case: dict[str, Any]) -> bool:
    """Whether an event is to meet just what was there before it: a global table, or another table by a foreign key."""
    return any(step["op"].startswith(("fk_", "global_")) for step in case["topology"]["steps"])


def _with_topics_of(app: str, case: dict[str, Any]) -> dict[str, Any]:
    """The case with topics that no other case has."""
    sources = {
        name: {**source, "topic": f"{app}-{source['topic']}"} for name, source in case["topology"]["sources"].items()
    }
    return {**case, "id": app, "topology": {**case["topology"], "sources": sources}}
