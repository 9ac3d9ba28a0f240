"""An app of one's own forgets what a clean-up has deleted: real processes, and keys that come back on the way."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
import pytest

from spark_apps.heartbeat import AppState, Heartbeat
from spark_apps.new_app.plan import plan_new_app, write_new_app
from tests.broker import start_broker
from tests.integration.app_process import AppProcesses
from tests.integration.generations.generation_steps import GenerationSteps
from tests.integration.topics import end_offsets, write_topic

pytestmark = [pytest.mark.broker, pytest.mark.spark]

APP, EVENTS, CHANGELOG = "page_views", "page_views-events", "page_views-totals-changelog"
OLD, KEPT = [b"old-%d" % number for number in range(400)], [b"kept-%d" % number for number in range(30)]


@dataclass
class Site(GenerationSteps):
    """The app's processes, and what was sent to it since each key was last forgotten."""

    sent: dict[bytes, list[int]] = field(default_factory=lambda: defaultdict(list))

    def send(self, keys: Iterable[bytes], amount: int) -> None:
        """An event of each key; all are there when it returns."""
        listed = list(keys)
        write_topic(self.broker.bootstrap, EVENTS, [(key, b'{"Amount": %d}' % amount) for key in listed])
        for key in listed:
            self.sent[key].append(amount)

    def expected(self) -> dict[bytes, dict[str, Any]]:
        return {
            key: {"Key": key.decode(), "Events": len(amounts), "Total": sum(amounts)}
            for key, amounts in self.sent.items()
        }

    def rows(self, topic: str) -> dict[bytes, dict[str, Any]]:
        return {key: orjson.loads(value) for key, value in self.content(topic).items()}

    def cleaned(self, *arguments: str) -> dict[str, Any]:
        """A step of a clean-up, which must succeed."""
        done = self.apps.run_module("spark_apps.maintenance", "cleanup", *arguments)
        assert done.returncode == 0, done.stderr[-3000:]
        found: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    write_new_app(plan_new_app(APP), tmp_path)
    broker = start_broker(tmp_path / "broker")
    own = {"own_apps": f"{APP}.spec:PAGE_VIEWS", "own_apps_dir": str(tmp_path)}
    settings = {"trigger_interval_ms": "200", "shuffle_partitions": "2", **own}
    apps = AppProcesses(tmp_path / "run", broker.bootstrap, settings)
    try:
        for topic in (EVENTS, f"{EVENTS}-dlq"):
            broker.create_topic(topic)
        broker.create_topic(CHANGELOG, config={"cleanup.policy": "compact"})
        yield Site(broker, apps)
    finally:
        apps.stop()
        broker.stop()


def has_begun(beat: Heartbeat) -> bool:
    """Whether the second generation has finished a batch."""
    return beat.state is AppState.RUNNING and beat.generation == 2 and beat.batch_id is not None


@pytest.mark.long("test_after_cleanup.py and test_compare.py have it in parts")
def test_a_generation_that_is_made_after_a_cleanup_begins_without_the_state_of_what_was_deleted(site: Site) -> None:
    live = site.apps.start(APP)
    site.send(OLD + KEPT, 3)
    live.await_caught_up(end_offsets(site.broker.bootstrap, EVENTS))
    began_s = time.monotonic()
    refused = site.apps.run_module("spark_apps.maintenance", "cleanup", "preview", "totals", "--ttl-days", "1")
    assert "purge_compute_state" in refused.stdout + refused.stderr
    took_s = time.monotonic() - began_s
    site.send(KEPT, 4)
    live.await_caught_up(end_offsets(site.broker.bootstrap, EVENTS))
    # The preview begins to look about as late after this as the one before did, so between the old and the kept rows.
    ttl_s = time.monotonic() - began_s + took_s / 2
    preview = site.cleaned("preview", "totals", "--ttl-days", f"{ttl_s / 86_400:.12f}", "--purge-compute-state")
    assert site.cleaned("run", "totals", preview["cleanup_id"])["deleted"] == len(OLD)

    # One is back before the seed: its app goes on from what it knows, and so does the next generation.
    site.send(OLD[:1], 5)
    live.await_caught_up(end_offsets(site.broker.bootstrap, EVENTS))
    seeded = site.step("seed", APP)["generations"][1]
    assert (seeded["seed_rows"], seeded["purged_rows"]) == (len(KEPT) + 1, len(OLD) - 1)
    beside = site.apps.start_next(APP)
    beside.await_beat(has_begun, "has written its seed")
    for key in OLD[1:]:
        del site.sent[key]
    # Some come back before the hand-over: the old generation goes on from what they had, the new one from nothing.
    site.send(OLD[1:20] + KEPT, 7)
    answer = site.step("handover", APP)
    assert (answer["live"], answer["comparison"]["purged"], answer["comparison"]["differing"]) == (2, 19, 0)
    site.send(OLD[:40], 11)
    live.await_caught_up(end_offsets(site.broker.bootstrap, EVENTS))
    for process in (live, beside):
        assert process.terminate() == 0, process.log_tail()
    assert site.rows(f"{CHANGELOG}-g2") == site.expected()
