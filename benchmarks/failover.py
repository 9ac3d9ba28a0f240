"""A cluster under load while nodes die, stop, get cut off or slow, come and go: `make bench-failover`.

Three nodes, two replicas of each of twelve partitions, 2,000 updates a second. Queries for points, windows, ranges
and everything go through `StateClient`; each answer is judged by an oracle outside. A second, bare HTTP client keeps
asking the nodes that survive. For each fault: wrong answers, failed client requests, the longest time for which the
bare client was refused, and p99 of point queries for keys that another node than the troubled one is asked for first,
before (as the peer) and during. For each node that was killed: what it read again of what it had, and when it answered
again. What was reached of the load, and which share of the processors each part took, is in the result's settings.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.results import Measure, write_results
from harness.broker import Broker, start_broker
from harness.failover.faults import FAULTS, SLOW_S, Return, Scene, join_and_leave, slow_peer
from harness.failover.load import BareLoad, ClientLoad, Outcome
from harness.failover.nodes import STORE, TROUBLED, running_cluster
from harness.failover.oracle import PARTITIONS, Oracle, Writer
from storekeeper.changelog.partitioner import partition_for
from storekeeper.node.cluster.assignment import holders

KEYS = 2000
WINDOW_KEYS = 300
TOLERANCE_S = 10.0
"""However stale an answer says that it may be: after so long a silent node is out."""
_SWITCH_INTERVAL_S = 0.0005
_BROKER_OPTIONS = ("-Xms256m", "-Xmx1g", "-XX:+UseSerialGC")
_BROKER_SESSION_MS = 9000
"""Kafka's default: a broker that had to wait for a processor isn't a fault of this campaign."""
MOST_REFUSAL_S = 1.0
WARM_UP_S = 45.0
"""The broker's JVM takes three times the processor time at first."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is asked and written a second, how long a fault and the quiet before it last, and how many die."""

    updates: int
    queries: int
    processes: int
    threads: int
    seconds: float
    quiet_s: float
    kills: int


FULL = Sizes(updates=2000, queries=700, processes=2, threads=16, seconds=8.0, quiet_s=6.0, kills=3)
SMOKE = Sizes(updates=400, queries=100, processes=1, threads=4, seconds=2.0, quiet_s=2.0, kills=1)


@dataclass(frozen=True, slots=True)
class Found:
    """What one fault did."""

    fault: str
    outcome: Outcome
    bare_wrong: list[str]
    refusal_ms: float
    refusals: list[str]
    before_ms: float
    during_ms: float
    queries_per_second: float
    updates_per_second: float
    bare_per_second: float
    incomplete: int

    @property
    def wrong(self) -> list[str]:
        """Why answers can't be right."""
        return [*self.outcome.wrong, *self.bare_wrong]


@dataclass(frozen=True, slots=True)
class Campaign:
    """All faults, what became of killed nodes, and the processors' time by who took it while nothing was wrong."""

    found: list[Found]
    returns: list[Return]
    processors: dict[str, float]


@dataclass(slots=True)
class Processors:
    """How many processors each part of the measurement takes."""

    groups: Callable[[], Mapping[str, Iterable[int]]]
    shares: list[dict[str, float]] = field(default_factory=list)

    def during(self, wait_s: float) -> None:
        """Waits, and takes note of who worked meanwhile."""
        before, began_s = self._seconds(), time.monotonic()
        time.sleep(wait_s)
        after, lasted_s = self._seconds(), time.monotonic() - began_s
        self.shares.append({name: (after[name] - before[name]) / lasted_s for name in after})

    def medians(self) -> dict[str, float]:
        """Of all times that were noted."""
        return {name: round(statistics.median(share[name] for share in self.shares), 2) for name in self.shares[0]}

    def _seconds(self) -> dict[str, float]:
        return {name: sum(map(_cpu_s, pids)) for name, pids in self.groups().items()}


def _cpu_s(pid: int) -> float:
    with suppress(psutil.Error):
        times = psutil.Process(pid).cpu_times()
        return float(times.user + times.system)
    return 0.0


def p99_ms(latencies_s: Iterable[float]) -> float:
    """The 99th percentile in milliseconds; 0 if there is none."""
    ordered = sorted(latencies_s)
    return ordered[len(ordered) * 99 // 100] * 1000 if ordered else 0.0


def others_keys() -> set[str]:
    """Keys that another node than the troubled one is to be asked for first."""
    active = [holders("abc", STORE, partition, 1)[0] for partition in range(PARTITIONS)]
    keys = (f"{number:05d}" for number in range(KEYS))
    return {key for key in keys if active[partition_for(key.encode(), PARTITIONS)] != TROUBLED}


@dataclass(frozen=True, slots=True)
class Stage:
    """Everybody who takes part."""

    scene: Scene
    client: ClientLoad
    bare: BareLoad
    processors: Processors
    quiet_s: float

    def play(self, fault: Callable[[Scene], None]) -> Found:
        """Some quiet time, then a fault."""
        quiet = self.client.outcome = Outcome()
        # Of this one a percentile is compared with that before it.
        self.processors.during(self.quiet_s * (2 if fault is slow_peer else 1))
        others = others_keys()
        self.client.outcome = outcome = Outcome()
        self.bare.forget()
        written, began_s = self.scene.writer.written, time.monotonic()
        fault(self.scene)
        lasted_s = time.monotonic() - began_s
        return Found(
            fault=fault.__name__,
            outcome=outcome,
            bare_wrong=self.bare.wrong,
            refusal_ms=self.bare.longest_refusal_s * 1000,
            refusals=self.bare.refusals,
            before_ms=p99_ms(took for _, key, took in quiet.latencies_s if key in others),
            during_ms=p99_ms(took for _, key, took in outcome.latencies_s if key in others),
            queries_per_second=outcome.asked / lasted_s,
            updates_per_second=(self.scene.writer.written - written) / lasted_s,
            bare_per_second=self.bare.asked / lasted_s,
            incomplete=self.bare.incomplete,
        )


def run(broker: Broker, folder: Path, sizes: Sizes, faults: Sequence[Callable[[Scene], None]]) -> Campaign:
    """Faults, one after the other; each is printed when it is over."""
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
        scene = Scene(cluster, oracle, writer, set(), sizes.seconds, sizes.kills)
        client = ClientLoad(
            cluster.announced(),
            oracle,
            windows,
            processes=sizes.processes,
            threads=sizes.threads,
            per_second=sizes.queries,
        )
        bare = BareLoad(scene.survivors, oracle)
        processors = Processors(
            lambda: {
                "nodes": [cluster.nodes[name].pid for name in "abc"],
                "broker": [broker.pid],
                "load": client.pids,
                "oracle_and_writers": [os.getpid()],
                "proxies": [cluster.network.pid],
            }
        )
        with writer, window_writer, client, bare:
            if join_and_leave in faults:
                scene.prepare_guests()
            time.sleep(WARM_UP_S)
            stage = Stage(scene, client, bare, processors, sizes.quiet_s)
            found = []
            for fault in faults:
                found.append(stage.play(fault))
                tell(found[-1])
    return Campaign(found, scene.returns, processors.medians())


def measures(campaign: Campaign) -> list[Measure]:
    """The counts, one figure per fault, and what became of killed nodes."""
    found, returns = campaign.found, campaign.returns

    def total(name: str, unit: str, counts: Iterable[int]) -> Measure:
        return Measure(name, unit, [float(sum(counts))], higher_is_better=False)

    rows = [
        total("wrong answers", "answers", (len(one.wrong) for one in found)),
        total("failed client requests", "requests", (len(one.outcome.failed) for one in found)),
        total("records that killed nodes read again", "records", (one.replayed for one in returns)),
        Measure("records that killed nodes had", "records", [float(one.had) for one in returns]),
        Measure("start to ready of a killed node", "s", [one.ready_s for one in returns], higher_is_better=False),
        Measure("queries through the client", "queries/s", [one.queries_per_second for one in found]),
        Measure("updates", "updates/s", [one.updates_per_second for one in found]),
    ]
    stalest = max(one.outcome.stalest_ms for one in found)
    rows.append(Measure("stalest answer, as the node reported it", "ms", [float(stalest)], higher_is_better=False))
    unstated = (one.outcome.unstated for one in found)
    rows.append(total("answers that could not tell how stale they are", "answers", unstated))
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


def settings_of(campaign: Campaign, sizes: Sizes) -> dict[str, object]:
    """What was asked for, and what was reached."""
    kinds: Counter[str] = sum((one.outcome.kinds for one in campaign.found), start=Counter())
    asked = {f"queries_of_kind_{kind}": count for kind, count in sorted(kinds.items())}
    taken = {f"processors_taken_by_{who}": share for who, share in campaign.processors.items()}
    return {
        "updates_per_second_wanted": sizes.updates,
        "queries_per_second_wanted": sizes.queries,
        **asked,
        "bare_queries_per_second": round(statistics.median(one.bare_per_second for one in campaign.found)),
        "bare_ranges_that_said_they_lack_something": sum(one.incomplete for one in campaign.found),
        **taken,
        "keys": KEYS,
        "partitions": PARTITIONS,
        "nodes": 3,
        "replicas_of_a_partition": 2,
        "fault_seconds": sizes.seconds,
        "slow_peer_delay_s": SLOW_S,
        "oracle_tolerance_s": TOLERANCE_S,
    }


def tell(one: Found) -> None:
    """For people."""
    print(
        f"{one.fault:22} wrong {len(one.wrong)}  failed {len(one.outcome.failed)}  "
        f"refusal {one.refusal_ms:5.0f} ms ({len(one.refusals)})  "
        f"p99 {one.before_ms:6.1f} -> {one.during_ms:6.1f} ms  "
        f"{one.queries_per_second:4.0f} queries/s  {one.updates_per_second:5.0f} updates/s  "
        f"stalest {one.outcome.stalest_ms} ms, {one.outcome.unstated} unstated",
        flush=True,
    )
    for reason in [*one.outcome.wrong[:2], *one.bare_wrong[:2], *one.outcome.failed[:2], *one.refusals[:2]]:
        print(f"    {reason}", flush=True)


def holds(one: Found) -> bool:
    """Whether nothing happened that must not."""
    return not one.wrong and not one.outcome.failed and one.refusal_ms <= MOST_REFUSAL_S * 1000


def main() -> int:
    """Measures, writes the result; fails on a wrong answer, a failed request or a long refusal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    parser.add_argument("--only", choices=[fault.__name__ for fault in FAULTS], help="one fault; nothing is written")
    options = parser.parse_args()
    # Writers, clients and the oracle share one process: an answer that is there must not wait for another thread.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    sizes = SMOKE if options.smoke else FULL
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    broker = start_broker(folder / "broker", _BROKER_OPTIONS, session_timeout_ms=_BROKER_SESSION_MS)
    try:
        chosen = [fault for fault in FAULTS if options.only in {None, fault.__name__}]
        campaign = run(broker, folder / "run", sizes, chosen)
    except BaseException:
        print(f"logs: {folder / 'run'}")
        raise
    finally:
        broker.stop()
    held = all(map(holds, campaign.found))
    if held:
        shutil.rmtree(folder, ignore_errors=True)
    else:
        print(f"logs: {folder / 'run'}")
    for back in campaign.returns:
        print(f"{back.node} had {back.had}, read {back.replayed} again, missed {back.missed}; {back.ready_s:.1f} s")
    print(campaign.processors)
    if not options.smoke and options.only is None:
        print(write_results("failover", measures(campaign), settings_of(campaign, sizes)))
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
