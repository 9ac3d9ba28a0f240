"""A store is split into four and merged again, under writes and reads: real Kafka, Spark and nodes, steps killed."""

from __future__ import annotations

import itertools
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import orjson
import pytest
from spark_apps.loyalty.migrations import REWARDS_BY_REGION, REWARDS_MERGE, REWARDS_SPLIT, REWARDS_TIER, region_of

from spark_apps.generations.migration import Chain
from spark_apps.records.loyalty import rewards_value
from tests.integration.app_process import AppProcess
from tests.integration.dying_step import PLACES_OF_SEED, PLACES_OF_TRANSFER
from tests.integration.generations.test_generations import CHANGELOG, Shop, await_batches, shop
from tests.integration.node_process import NodeProcess, make_nodes, started
from tests.integration.purchases import PURCHASES
from tests.integration.topics import end_offsets
from tests.meanwhile import running
from tests.waiting import eventually

__all__ = ["shop"]
pytestmark = [
    pytest.mark.broker,
    pytest.mark.spark,
    pytest.mark.long("nodes and steps have it in test_split_changeover.py and test_handover.py"),
]

TO_SPLIT = ("--migration", "rewards-tier", "--migration", "rewards-by-region", "--migration", "rewards-split")
SPLIT = Chain((REWARDS_TIER, REWARDS_BY_REGION, REWARDS_SPLIT))
MERGED = Chain((*SPLIT.steps, REWARDS_MERGE))
PARTS = REWARDS_SPLIT.stores
PATIENCE_S = 60


@dataclass
class Reader:
    """Asks the nodes for cards, one after the other, and notes what must not be."""

    nodes: list[NodeProcess]
    cards: list[str]
    stopped: threading.Event = field(default_factory=threading.Event)
    stores: tuple[str, ...] = ("rewards",)
    reads: int = 0
    wrong: list[str] = field(default_factory=list)

    def run(self) -> None:
        """Runs in a thread."""
        counts: dict[str, int] = {}
        with httpx2.Client(trust_env=False, timeout=30) as client:
            for card, node in zip(itertools.cycle(self.cards), itertools.cycle(self.nodes), strict=False):
                if self.stopped.wait(0.01):
                    return
                store = self.stores[0] if len(self.stores) == 1 else f"rewards-{region_of(card)}"
                answer = client.get(f"{node.address}/state/keyvalue/{store}/{card}")
                self.reads += 1
                count = answer.json()["value"]["InvoiceCount"] if answer.status_code == 200 else -1
                if count < 0 or count + 10 < counts.get(card, 0):
                    self.wrong.append(f"{store}/{card}: {answer.status_code} {answer.text[:200]}")
                counts[card] = max(count, counts.get(card, 0))


@pytest.fixture
def nodes(shop: Shop) -> Iterator[list[NodeProcess]]:
    """Two nodes that share the partitions, and know of `rewards` alone."""
    made = make_nodes(
        shop.broker,
        shop.apps.run_dir,
        f"rewards={CHANGELOG}",
        replicas=0,
        handover_ms=500,
        forward_timeout_ms=15_000,
    )
    with started(made):
        yield made


@contextmanager
def reading(shop: Shop, nodes: list[NodeProcess]) -> Iterator[Reader]:
    """Readers ask all the time; in the end they have seen nothing wrong."""
    found = Reader(nodes, sorted(shop.tills.expected_values()))
    with running(found.run, found.stopped):
        yield found
    assert not found.wrong, found.wrong[:5]
    assert found.reads > 100


def test_a_store_is_split_under_writes_and_reads_whatever_is_killed_and_can_be_rolled_back(
    shop: Shop, nodes: list[NodeProcess]
) -> None:
    live = begun(shop, nodes)
    with reading(shop, nodes) as reader:
        split(shop, nodes, reader, PLACES_OF_SEED, PLACES_OF_TRANSFER, goes_back=True)
        ended(shop, live)
    check(shop, SPLIT, {store: f"loyalty-{store}-changelog-g2" for store in PARTS})
    check_maintenance(shop)


def test_what_was_split_is_merged_under_writes_and_reads_whatever_is_killed(
    shop: Shop, nodes: list[NodeProcess]
) -> None:
    live = begun(shop, nodes)
    with reading(shop, nodes) as reader:
        split(shop, nodes, reader, (), ())
        merge(shop, nodes, reader, PLACES_OF_SEED[2:], PLACES_OF_TRANSFER[1::2])
        ended(shop, live)
    check(shop, MERGED, {"rewards": f"{CHANGELOG}-g3"})


def begun(shop: Shop, nodes: list[NodeProcess]) -> AppProcess:
    """The app that runs, under writes, and nodes that answer."""
    live = shop.apps.start("loyalty")
    live.await_caught_up(end_offsets(shop.broker.bootstrap, PURCHASES))
    for node in nodes:
        node.wait_ready()
    shop.tills.open()
    return live


def split(
    shop: Shop,
    nodes: list[NodeProcess],
    reader: Reader,
    seed_places: tuple[str, ...],
    places: tuple[str, ...],
    *,
    goes_back: bool = False,
) -> None:
    """Takes all steps, killed at these places first."""
    shop.killed_at(seed_places, "seed", "loyalty", *TO_SPLIT)
    shop.step("seed", "loyalty", *TO_SPLIT)
    beside = shop.apps.start_next("loyalty")
    await_batches(beside, 1)
    for node in nodes:
        assert names(node) == ["rewards"], "what is prepared can't be asked for yet"
        assert node.get("/state/keyvalue/rewards-west/1").json()["type"].endswith("unknown-store")

    shop.killed_at(places, "handover", "loyalty")
    answer = shop.step("handover", "loyalty")
    assert (answer["live"], answer["standby"], answer["stores"]) == (2, 1, list(PARTS))
    both = sorted(["rewards", *PARTS])
    eventually(lambda: all(names(node) == both for node in nodes), PATIENCE_S, "both can be asked for")
    reader.stores = PARTS
    if goes_back:
        assert shop.step("rollback", "loyalty")["stores"] == ["rewards"]
        assert [names(node) for node in nodes] == [both, both], "what was given up goes on until it is retired"
        answer = shop.step("handover", "loyalty")
        assert (answer["live"], answer["comparison"]["same"]) == (2, len(shop.tills.expected_values()))
    shop.step("retire", "loyalty", "--delete")
    assert beside.await_exit() == 0, beside.log_tail()
    eventually(lambda: all(names(node) == sorted(PARTS) for node in nodes), PATIENCE_S, "the parts alone are left")
    gone = nodes[0].get("/state/keyvalue/rewards/1")
    assert (gone.status_code, gone.json()["stores"]) == (404, list(PARTS))
    assert all(node.is_ready() for node in nodes)


def check_maintenance(shop: Shop) -> None:
    """What operators do with a store, they can do with its parts, all at once or one of them."""
    rows = len(shop.tills.expected_values())
    taken = _told(shop.apps.run("snapshot", "rewards"))
    assert taken["stores"].keys() == set(PARTS)
    assert sum(found["row_count"] for found in taken["stores"].values()) == rows
    assert len({orjson.dumps(found["source_offsets"]) for found in taken["stores"].values()}) == 1
    verified = _told(shop.apps.run_module("spark_apps.maintenance", "verify", "rewards"))
    assert (verified["passed"], verified["details"]["stores"].keys()) == (True, set(PARTS))
    grown = _told(shop.apps.run_module("spark_apps.maintenance", "growth", "rewards"))
    assert sum(found["rows"] for found in grown["details"]["stores"].values()) == rows
    assert _told(shop.apps.run_module("quality.snapshot_check", "rewards"))["passed"]
    arguments = ("--ttl-days", "1", "--keep-compute-state")
    previewed = _told(shop.apps.run_module("spark_apps.maintenance", "cleanup", "preview", "rewards-west", *arguments))
    assert previewed["store"] == "rewards-west"
    refused = shop.apps.run_module("spark_apps.maintenance", "cleanup", "preview", "rewards", *arguments)
    assert refused.returncode != 0
    assert "are in rewards-north, rewards-east" in refused.stderr
    planned = shop.apps.run_module("spark_apps.planning", "loyalty", "--migration", "rewards-merge")
    assert "merge: rows of rewards-north" in _told(planned)["text"]


def _told(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = orjson.loads(done.stdout.splitlines()[-1])
    return found


def merge(
    shop: Shop, nodes: list[NodeProcess], reader: Reader, seed_places: tuple[str, ...], places: tuple[str, ...]
) -> None:
    """The same from there on."""
    arguments = ("seed", "loyalty", "--migration", "rewards-merge")
    shop.killed_at(seed_places, *arguments)
    assert shop.step(*arguments)["generations"][2]["seed_rows"] == len(shop.tills.expected_values())
    assert nodes[0].get("/state/keyvalue/rewards/1").json()["stores"] == list(PARTS), "not before it is handed over"
    beside = shop.apps.start_next("loyalty")
    await_batches(beside, 1)
    shop.killed_at(places, "handover", "loyalty")
    answer = shop.step("handover", "loyalty")
    assert (answer["live"], answer["stores"]) == (3, ["rewards"])
    eventually(lambda: all("rewards" in names(node) for node in nodes), PATIENCE_S, "the merged store answers")
    reader.stores = ("rewards",)
    shop.step("retire", "loyalty", "--delete")
    assert beside.await_exit() == 0, beside.log_tail()
    eventually(lambda: all(names(node) == ["rewards"] for node in nodes), PATIENCE_S, "it alone is left")
    assert nodes[1].get("/state/keyvalue/rewards-west/1").json()["stores"] == ["rewards"]


def ended(shop: Shop, live: AppProcess) -> None:
    """No more writes, and all of them processed."""
    shop.tills.close()
    live.await_caught_up(end_offsets(shop.broker.bootstrap, PURCHASES))
    assert live.terminate() == 0, live.log_tail()


def check(shop: Shop, chain: Chain, topics: Mapping[str, str]) -> None:
    """Every store holds what was sold to its customers, and nothing else; each notification was written once."""
    first = [(card.encode(), rewards_value(card, *numbers)) for card, numbers in shop.tills.expected_values().items()]
    wanted = {(store, key): value for row in first for store, key, value in chain.placed("rewards", *row)}
    found = {(store, key): value for store, topic in topics.items() for key, value in shop.content(topic).items()}
    assert found == wanted
    shop.check_notifications()


def names(node: NodeProcess) -> list[str]:
    """The stores that a node can be asked for."""
    return [store["store"] for store in node.get("/state/stores").json()]
