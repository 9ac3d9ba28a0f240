"""A cluster under load while nodes die, stop, get cut off or slow, come and go: `make bench-failover`.

Three nodes, two replicas of each of twelve partitions, 2,000 updates a second. Questions for points, windows, ranges
and everything go through `StateClient`; each answer is judged by an oracle outside. A second, bare HTTP client keeps
asking the nodes that survive. For each fault: wrong answers, failed client requests, the longest time for which the
bare client was refused, and p99 of point queries for keys that another node than the troubled one is asked for first,
before (as the peer) and during.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.results import Measure, write_results
from state.changelog.partitioner import partition_for
from tests.broker import Broker, start_broker
from tests.faults.failover.faults import FAULTS, Scene
from tests.faults.failover.load import BareLoad, ClientLoad, Outcome
from tests.faults.failover.nodes import STORE, Cluster, running_cluster
from tests.faults.failover.oracle import PARTITIONS, Oracle, Writer

KEYS = 3000
WINDOW_KEYS = 300
TROUBLED = "b"
TOLERANCE_S = 3.0
MOST_REFUSAL_S = 1.0
QUIET_S = 5.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked and written a second, and how long a fault lasts."""

    updates: int
    queries: int
    threads: int
    seconds: float


@dataclass(frozen=True, slots=True)
class Found:
    """What one fault did."""

    fault: str
    outcome: Outcome
    wrong: int
    refusal_ms: float
    before_ms: float
    during_ms: float
    queries_per_second: float


def p99_ms(latencies_s: Iterable[float]) -> float:
    """The 99th percentile in milliseconds; 0 if there is none."""
    ordered = sorted(latencies_s)
    return ordered[len(ordered) * 99 // 100] * 1000 if ordered else 0.0


def others_keys(cluster: Cluster) -> set[str]:
    """Keys that another node than the troubled one is asked for first."""
    node = next(node for name, node in cluster.nodes.items() if name != TROUBLED)
    holders: Sequence[Sequence[str]] = node.get("/state/cluster").json()["assignment"][STORE]
    keys = (f"{number:05d}" for number in range(KEYS))
    return {key for key in keys if holders[partition_for(key.encode(), PARTITIONS)][0] != TROUBLED}


def play(fault: Callable[[Scene], None], scene: Scene, client: ClientLoad, bare: BareLoad) -> Found:
    """Some quiet time, then a fault."""
    quiet = client.outcome = Outcome()
    time.sleep(QUIET_S)
    others = others_keys(scene.cluster)
    client.outcome = outcome = Outcome()
    bare.forget()
    began_s = time.monotonic()
    fault(scene)
    lasted_s = time.monotonic() - began_s
    return Found(
        fault=fault.__name__,
        outcome=outcome,
        wrong=len(outcome.wrong) + len(bare.wrong),
        refusal_ms=bare.longest_refusal_s * 1000,
        before_ms=p99_ms(took for _, key, took in quiet.latencies_s if key in others),
        during_ms=p99_ms(took for _, key, took in outcome.latencies_s if key in others),
        queries_per_second=(outcome.asked + bare.asked) / lasted_s,
    )


def run(broker: Broker, folder: Path, sizes: Sizes) -> list[Found]:
    """All faults, one after the other."""
    topic = "failover"
    for name in (topic, f"{topic}-windows"):
        broker.create_topic(name, PARTITIONS, {"cleanup.policy": "compact"})
    keys = [f"{number:05d}" for number in range(KEYS)]
    oracle, windows = Oracle(keys, TOLERANCE_S), Oracle(keys[:WINDOW_KEYS], TOLERANCE_S)
    writer = Writer(broker.bootstrap, topic, oracle, sizes.updates)
    window_writer = Writer(broker.bootstrap, f"{topic}-windows", windows, sizes.updates // 10, window=True)
    writer.write_all()
    window_writer.write_all()
    with running_cluster(broker, folder, topic, "a", "b", "c") as cluster:
        scene = Scene(cluster, oracle, writer, set(), sizes.seconds)
        client = ClientLoad(cluster.addresses(), oracle, windows, threads=sizes.threads, per_second=sizes.queries)
        bare = BareLoad(scene.survivors, oracle)
        with writer, window_writer, client, bare:
            return [play(fault, scene, client, bare) for fault in FAULTS]


def measures(found: Sequence[Found]) -> list[Measure]:
    """One figure per fault, and the worst of the counts."""
    rows = [
        Measure("wrong answers", "answers", [float(sum(one.wrong for one in found))], higher_is_better=False),
        Measure(
            "failed client requests",
            "requests",
            [float(sum(len(one.outcome.failed) for one in found))],
            higher_is_better=False,
        ),
        Measure("questions", "questions/s", [one.queries_per_second for one in found]),
    ]
    for one in found:
        rows.append(Measure(f"{one.fault}: longest refusal", "ms", [one.refusal_ms], higher_is_better=False))
        rows.append(
            Measure(
                f"{one.fault}: p99 of other keys",
                "ms",
                [one.during_ms],
                [one.before_ms],
                "the same before the fault",
                higher_is_better=False,
            )
        )
    return rows


def main() -> int:
    """Measures, writes the result; fails on a wrong answer, a failed request or a long refusal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    smoke: bool = parser.parse_args().smoke
    sizes = Sizes(400, 100, 4, 2.0) if smoke else Sizes(2000, 550, 12, 8.0)
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    broker = start_broker(folder / "broker")
    try:
        found = run(broker, folder / "run", sizes)
    finally:
        broker.stop()
        shutil.rmtree(folder, ignore_errors=True)
    for one in found:
        print(
            f"{one.fault:18} wrong {one.wrong}  failed {len(one.outcome.failed)}  refusal {one.refusal_ms:7.0f} ms  "
            f"p99 {one.before_ms:6.1f} -> {one.during_ms:6.1f} ms  {one.queries_per_second:6.0f} questions/s"
        )
        for reason in [*one.outcome.wrong[:2], *one.outcome.failed[:2]]:
            print(f"    {reason}")
    if not smoke:
        settings = {
            "updates_per_second": sizes.updates, "queries_per_second": sizes.queries, "keys": KEYS,
            "partitions": PARTITIONS, "nodes": 3, "replicas_of_a_partition": 2, "fault_seconds": sizes.seconds,
            "oracle_tolerance_s": TOLERANCE_S,
        }  # fmt: skip
        print(write_results("failover", measures(found), settings))
    held = all(not one.wrong and not one.outcome.failed and one.refusal_ms <= MOST_REFUSAL_S * 1000 for one in found)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
