"""Generations of pos on a real broker and real Spark, under writes, each step killed at every place on its way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import orjson
import pytest

from harness.app_process import AppProcess, AppProcesses
from harness.broker import start_broker
from harness.changelog_records import read_changelog
from harness.dying_step import PLACES_OF_SEED, PLACES_OF_TRANSFER
from harness.purchases import INVOICES, Tills
from harness.topics import end_offsets, read_topic
from state.rewards import REWARDS_BY_REGION, REWARDS_TIER, Rewards
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations.migration import Chain
from storekeeper.node.cluster.aliases import read_aliases
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.serdes.struct import StructSerde
from tests.integration.generations.generation_steps import GenerationSteps

pytestmark = [
    *(pytest.mark.broker, pytest.mark.spark, pytest.mark.timeout(1200)),
    pytest.mark.long("test_handover.py and test_seeding.py have it with played apps, test_after_cleanup.py in parts"),
]

CHANGELOG = "pos-rewards-changelog"
SECOND = f"{CHANGELOG}-g2"


@dataclass
class Shop(GenerationSteps):
    """Tills that sell on and on, and the processes of pos."""

    tills: Tills

    def cleaned(self, *arguments: str) -> dict[str, Any]:
        """A step of a clean-up, which must succeed."""
        done = self.apps.run("cleanup", *arguments, "--output", "json")
        assert done.returncode == 0, done.stderr[-3000:]
        found: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
        return found

    def killed_at(self, places: tuple[str, ...], *arguments: str) -> None:
        """Takes a step again and again, killed at each of the places in turn."""
        for place in places:
            assert self.apps.run_dying(place, "generation", *arguments) == -9, place

    def serving_topic(self) -> str:
        """The changelog that readers are told of."""
        secret = load_cluster_secret(self.apps.run_dir / "secrets" / "cluster.key")
        return read_aliases(self.broker.kafka, secret)["rewards"].serving_topic

    def content(self, topic: str) -> dict[bytes, bytes]:
        """What a changelog adds up to, which never has a deletion: pos deletes no row."""
        assert all(value is not None for _, value in read_changelog(self.broker.kafka, topic))
        return super().content(topic)

    def expected(self, chain: Chain) -> dict[bytes, bytes]:
        """What a store must hold whose records went through these changes."""
        serde = StructSerde(Rewards)
        first = {
            card.encode(): serde.serialize(Rewards(card, Decimal(units).scaleb(-4), count, last_ms))
            for card, (units, count, last_ms) in self.tills.expected_values().items()
        }
        return dict(record for key, value in first.items() for record in chain.convert(key, value))

    def check_notifications(self) -> None:
        self.tills.check_notifications([(r.key, r.value) for r in read_topic(self.broker.bootstrap, "loyalty")])


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    broker = start_broker(tmp_path / "broker")
    apps = AppProcesses(tmp_path / "run", broker.bootstrap, {"trigger_interval_ms": "200"})
    tills = Tills(broker.bootstrap)
    try:
        for topic in (INVOICES, "pos-dlq", "hadoop-sink", "shipment", "loyalty"):
            broker.create_topic(topic)
        broker.create_topic(CHANGELOG, config={"cleanup.policy": "compact"})
        tills.sell(2000)
        yield Shop(broker, apps, tills)
    finally:
        tills.close()
        apps.stop()
        broker.stop()


def await_batches(process: AppProcess, count: int = 1) -> None:
    def there(beat: Heartbeat) -> bool:
        return beat.state is AppState.RUNNING and beat.batch_id is not None and beat.batch_id >= count

    process.await_beat(there, f"batch {count}")


def test_a_generation_takes_over_under_writes_whatever_is_killed_and_can_be_rolled_back(shop: Shop) -> None:
    live = shop.apps.start("pos")
    await_batches(live, 0)
    shop.tills.open()
    shop.killed_at(("after:PLANNED", "after:SEEDED", "before:STARTED"), "seed", "pos", "--migration", "rewards-tier")
    answer = shop.step("seed", "pos", "--migration", "rewards-tier")
    assert (answer["live"], answer["candidate"], answer["standby"]) == (1, 2, None)
    assert shop.serving_topic() == CHANGELOG
    config = {"cleanup.policy": "compact", "message.timestamp.type": "CreateTime"}
    assert Topics(shop.broker.kafka).own_config(SECOND) == config
    beside = shop.apps.start_next("pos")
    await_batches(beside, 2)

    shop.killed_at(PLACES_OF_TRANSFER, "handover", "pos")
    answer = shop.step("handover", "pos")
    assert (answer["live"], answer["candidate"], answer["standby"]) == (2, None, 1)
    assert shop.step("handover", "pos")["live"] == 2
    assert shop.serving_topic() == SECOND
    live.await_beat(lambda beat: beat.generation == 2 and beat.state is AppState.RUNNING, "runs generation 2")
    beside.await_beat(lambda beat: beat.generation == 1 and beat.state is AppState.RUNNING, "runs generation 1")

    answer = shop.step("rollback", "pos")
    assert (answer["live"], answer["standby"]) == (1, 2)
    assert shop.step("rollback", "pos")["live"] == 1
    assert shop.serving_topic() == CHANGELOG
    answer = shop.step("handover", "pos")
    assert answer["live"] == 2
    assert answer["comparison"]["same"] == len(shop.tills.expected_values())

    answer = shop.step("retire", "pos", "--delete")
    assert beside.await_exit() == 0, beside.log_tail()
    assert answer["generations"][0]["state"] == "RETIRED"
    shop.tills.close()
    live.await_caught_up(end_offsets(shop.broker.bootstrap, INVOICES))
    assert live.terminate() == 0, live.log_tail()
    assert shop.content(SECOND) == shop.expected(Chain((REWARDS_TIER,)))
    shop.check_notifications()


def test_rows_get_new_keys_after_a_change_that_they_could_not_go_through(shop: Shop) -> None:
    live = shop.apps.start("pos")
    await_batches(live, 0)
    shop.tills.open()
    shop.killed_at(PLACES_OF_SEED, "seed", "pos", "--migration", "rewards-tier")
    shop.step("seed", "pos", "--migration", "rewards-tier")
    beside = shop.apps.start_next("pos")
    await_batches(beside, 1)
    shop.step("handover", "pos")
    shop.step("retire", "pos")
    assert beside.await_exit() == 0, beside.log_tail()

    code, answer = shop.tried("seed", "pos", "--migration", "tests.integration.generations.odd_change:ODD")
    assert code == 5, answer
    assert "x ValueError" in answer["error"]
    assert shop.tried("handover", "pos")[0] == 5
    assert shop.step("status", "pos")["live"] == 2
    assert shop.step("retire", "pos")["candidate"] is None

    assert shop.step("seed", "pos", "--migration", "rewards-by-region")["candidate"] == 4
    beside = shop.apps.start_next("pos")
    await_batches(beside, 1)
    answer = shop.step("handover", "pos")
    assert (answer["live"], answer["standby"]) == (4, 2)
    live.await_beat(lambda beat: beat.generation == 4 and beat.state is AppState.RUNNING, "runs generation 4")
    assert shop.step("retire", "pos")["standby"] is None
    assert beside.await_exit() == 0, beside.log_tail()
    shop.tills.close()
    live.await_caught_up(end_offsets(shop.broker.bootstrap, INVOICES))
    assert live.terminate() == 0, live.log_tail()
    rows = shop.content(f"{CHANGELOG}-g4")
    assert rows == shop.expected(Chain((REWARDS_TIER, REWARDS_BY_REGION)))
    assert all(b"|" in key for key in rows)
    shop.check_notifications()


def test_apps_that_are_killed_in_any_phase_take_up_their_orders(shop: Shop) -> None:
    running = {"pos": shop.apps.start("pos")}
    await_batches(running["pos"], 0)
    shop.tills.open()
    shop.step("seed", "pos", "--migration", "rewards-tier")
    running["pos-next"] = shop.apps.start_next("pos")
    await_batches(running["pos-next"], 1)
    back_again = {1: ("handover", 2), 2: ("rollback", 1)}
    for number, place in enumerate(PLACES_OF_TRANSFER[1:]):
        step, wanted = back_again[shop.step("status", "pos")["live"]]
        assert shop.apps.run_dying(place, "generation", step, "pos") == -9, place
        victim = ("pos", "pos-next")[number % 2]
        running[victim].process.kill()
        running[victim].await_exit()
        start = shop.apps.start if victim == "pos" else shop.apps.start_next
        running[victim] = start("pos")
        assert shop.step(step, "pos")["live"] == wanted
        for process in running.values():
            process.await_beat(lambda beat: beat.state is AppState.RUNNING, "goes on")
    shop.tills.close()
    running["pos"].await_caught_up(end_offsets(shop.broker.bootstrap, INVOICES))
    live = shop.step("status", "pos")["live"]
    for process in running.values():
        assert process.terminate() == 0, process.log_tail()
    expected = shop.expected(Chain((REWARDS_TIER,) if live == 2 else ()))
    assert shop.content(CHANGELOG if live == 1 else SECOND) == expected
    shop.check_notifications()
