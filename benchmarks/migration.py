"""The migration of a store under load, with all that takes part in it: `make bench-migration`.

`pos` runs on Spark and takes 1,000 purchases a second; two nodes, without standbys, answer 1,000 reads a second,
sent at a steady rate. Its store gets another format (`rewards-tier`), goes back, gets it again, and then gets other
keys (`rewards-by-region`), each change by a generation of its own: seeded, run beside the old one, handed over,
retired. For each step: failed reads, p99 beside that of the quiet time before (as the peer), and the oldest answer, by
when the first purchase was made that it lacks. In the end the store must be what the purchases add up to, and each must
have been notified once. It fails if a read failed, a row differs, or going back took ten seconds.

A reader that gets no row by a card's old key asks by the new one, and the other way round: keys change with the
hand-over. If that is between its two reads, neither finds a row, and the first one is asked again.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

from benchmarks.changeover import Reader, Reads, Sizes, Stream, get
from benchmarks.failover import p99_ms
from benchmarks.results import Measure, write_results
from harness.app_process import AppProcess, AppProcesses
from harness.broker import Broker, start_broker
from harness.changelog_records import read_changelog
from harness.node_process import COMPACTED, NodeProcess, make_nodes
from harness.purchases import INVOICES, Tills
from harness.topics import end_offsets, read_topic
from harness.waiting import eventually
from state.rewards import REWARDS_BY_REGION, REWARDS_TIER, Rewards, region_of
from storekeeper.apps.registry import stores
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.generations.migration import Chain
from storekeeper.generations.status import behind as behind_of
from storekeeper.serdes.struct import StructSerde

ROLL_BACK_S = 10.0
CAUGHT_UP_RECORDS = 5000
FULL = Sizes(keys=2000, writes=1000, reads=1000, seconds=10)
SMOKE = Sizes(keys=100, writes=100, reads=50, seconds=2)
CHANGELOG = stores()["rewards"].changelog_topic


class TimedTills(Tills):
    """Tills that remember when which purchase of a card was made."""

    def __init__(self, bootstrap: str, sizes: Sizes) -> None:
        super().__init__(bootstrap, cards=sizes.keys, per_second=sizes.writes)
        self.times_s: dict[str, list[float]] = defaultdict(list)

    def sell(self, count: int) -> None:
        """As ever; the time is that before they are written."""
        now_s = time.monotonic()
        super().sell(count)
        for sale in islice(reversed(self.sold.values()), count):
            self.times_s[sale.card].append(now_s)


class CardReader(Reader):
    """Reads the rows of cards, by whichever key they have."""

    def __init__(self, nodes: list[NodeProcess], tills: TimedTills, sizes: Sizes) -> None:
        super().__init__(nodes, sizes.reads)
        self._tills = tills
        self._cards = sorted(tills.times_s)
        self._by_region = False
        self.oldest_s = 0.0

    async def ask(self, stream: Stream, number: int, reads: Reads) -> None:
        """There must be a row. Its age follows from the first purchase that it lacks."""
        card, began_s = self._cards[number % len(self._cards)], time.monotonic()
        first = self._by_region
        for by_region in (first, not first, first):
            key = f"{region_of(card)}%7C{card}" if by_region else card
            status, body = await get(stream, f"/state/keyvalue/rewards/{key}")
            if status == 200:
                self._by_region = by_region
                times_s, had = self._tills.times_s[card], json.loads(body)["value"]["InvoiceCount"]
                if had < len(times_s):
                    self.oldest_s = max(self.oldest_s, began_s - times_s[had])
                return
        reads.wrong.append(f"{card}: {status} {body[:200]!r}")


@dataclass(slots=True)
class Migration:
    """The processes, and what was seen step by step."""

    broker: Broker
    apps: AppProcesses
    nodes: list[NodeProcess]
    tills: TimedTills
    reader: CardReader
    live: AppProcess
    sizes: Sizes
    reads: dict[str, Reads] = field(default_factory=dict)
    took_s: dict[str, float] = field(default_factory=dict)
    answered_s: dict[str, float] = field(default_factory=dict)
    oldest_s: dict[str, float] = field(default_factory=dict)
    differing: int = 0

    def play(self) -> None:
        """All steps, and the comparison with what was sold."""
        self._step("quiet", lambda: None)
        beside = self._made("rewards-tier")
        self._step("hand over", lambda: self._taken("hand over", "handover", 2))
        self._step("roll back", lambda: self._taken("roll back", "rollback", 1))
        self._step("hand over again", lambda: self._taken("hand over again", "handover", 2))
        self._retired(beside)
        beside = self._made("rewards-by-region")
        self._step("hand over, other keys", lambda: self._taken("hand over, other keys", "handover", 3))
        self._retired(beside)
        self._compare()

    def _made(self, change: str) -> AppProcess:
        self._step(f"seed {change}", lambda: self._command("seed", "pos", "--migration", change))
        beside = self.apps.start_next("pos")
        self._step(f"run {change} beside", lambda: beside.await_beat(_is_close, "has caught up"))
        return beside

    def _retired(self, beside: AppProcess) -> None:
        self._step("retire", lambda: self._command("retire", "pos", "--delete"))
        beside.await_exit()

    def _taken(self, name: str, step: str, wanted: int) -> None:
        topic = CHANGELOG + (f"-g{wanted}" if wanted > 1 else "")
        began_s = time.monotonic()
        with ThreadPoolExecutor(1) as threads:
            answer = threads.submit(self._command, step, "pos")
            eventually(
                lambda: all(node.get("/state/stores/rewards").json()["topic"] == topic for node in self.nodes),
                60,
                topic,
            )
            self.answered_s[name] = time.monotonic() - began_s
            assert answer.result()["live"] == wanted, answer.result()

    def _command(self, *arguments: str) -> dict[str, Any]:
        done = self.apps.run("generation", *arguments, "--output", "json")
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
        found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
        return found

    def _step(self, name: str, action: Callable[[], object]) -> None:
        while name in self.reads:
            name += " again"
        reads = self.reads[name] = self.reader.reads = Reads()
        self.reader.oldest_s, sold, began_s = 0.0, len(self.tills.sold), time.monotonic()
        action()
        self.took_s[name] = time.monotonic() - began_s
        time.sleep(self.sizes.seconds)
        lasted_s = time.monotonic() - began_s
        self.reader.reads = Reads()  # what follows is not part of the step
        reads.per_second, reads.written_per_second = (
            len(reads.latencies_s) / lasted_s,
            (len(self.tills.sold) - sold) / lasted_s,
        )
        self.oldest_s[name] = self.reader.oldest_s
        print(
            f"{name:28} took {self.took_s[name]:6.2f} s  reads/s {reads.per_second:5.0f}  purchases/s "
            f"{reads.written_per_second:5.0f}  failed {len(reads.wrong)}  p99 {p99_ms(reads.latencies_s):7.1f} ms  "
            f"oldest {self.oldest_s[name]:5.1f} s  answers changed after {self.answered_s.get(name, 0):5.2f} s",
            *reads.wrong[:3],
            sep="\n    " if reads.wrong else " ",
            flush=True,
        )

    def _compare(self) -> None:
        self.tills.close()
        self.live.await_caught_up(end_offsets(self.broker.bootstrap, INVOICES))
        chain, serde = Chain((REWARDS_TIER, REWARDS_BY_REGION)), StructSerde(Rewards)
        first = {
            card.encode(): serde.serialize(Rewards(card, Decimal(units).scaleb(-4), count, last_ms))
            for card, (units, count, last_ms) in self.tills.expected_values().items()
        }
        expected = dict(record for key, value in first.items() for record in chain.convert(key, value))
        found = dict(read_changelog(self.broker.kafka, f"{CHANGELOG}-g3"))
        self.differing = sum(found.get(key) != expected.get(key) for key in found.keys() | expected.keys())
        self.tills.check_notifications([(r.key, r.value) for r in read_topic(self.broker.bootstrap, "loyalty")])


def _is_close(beat: Heartbeat) -> bool:
    behind = behind_of(
        Position.from_json(json.dumps(beat.latest_offsets)), Position.from_json(json.dumps(beat.offsets))
    )
    return beat.state is AppState.RUNNING and (beat.batch_id or 0) > 0 and behind < CAUGHT_UP_RECORDS


def run(folder: Path, sizes: Sizes) -> Migration:
    """The whole measurement."""
    broker = start_broker(folder / "broker")
    apps = AppProcesses(folder / "run", broker.bootstrap)
    tills = TimedTills(broker.bootstrap, sizes)
    nodes = make_nodes(broker, folder / "run", f"rewards={CHANGELOG}", replicas=0)
    try:
        for topic in (INVOICES, "pos-dlq", "hadoop-sink", "shipment", "loyalty"):
            broker.create_topic(topic)
        broker.create_topic(CHANGELOG, 4, COMPACTED)
        tills.sell(10 * sizes.keys)
        live = apps.start("pos")
        live.await_caught_up(end_offsets(broker.bootstrap, INVOICES))
        for node in nodes:
            node.start()
        for node in nodes:
            node.wait_ready()
        live.await_beat(lambda beat: beat.state is AppState.RUNNING, "runs")
        tills.open()
        time.sleep(sizes.seconds)
        with CardReader(nodes, tills, sizes) as reader:
            migration = Migration(broker, apps, nodes, tills, reader, live, sizes)
            migration.play()
        return migration
    finally:
        tills.close()
        for node in nodes:
            with suppress(OSError):
                node.close()
        apps.stop()
        broker.stop()


def measures(found: Migration) -> list[Measure]:
    """Failed reads, differing rows, the load, p99 of each step beside the quiet time, and how long changing took."""
    quiet_ms = p99_ms(found.reads["quiet"].latencies_s)
    wrong = float(sum(len(reads.wrong) for reads in found.reads.values()))
    rows = [
        Measure("failed reads", "reads", [wrong], higher_is_better=False),
        Measure("rows that differ from the oracle", "rows", [float(found.differing)], higher_is_better=False),
        Measure("reads reached", "reads/s", [reads.per_second for reads in found.reads.values()]),
        Measure("purchases reached", "purchases/s", [reads.written_per_second for reads in found.reads.values()]),
    ]
    for name, reads in found.reads.items():
        p99, before = [p99_ms(reads.latencies_s)], "the quiet time before"
        rows.append(Measure(f"{name}: oldest answer", "s", [found.oldest_s[name]], higher_is_better=False))
        if name != "quiet":
            rows += [
                Measure(f"{name}: took", "s", [found.took_s[name]], higher_is_better=False),
                Measure(f"{name}: p99 of reads", "ms", p99, [quiet_ms], before, higher_is_better=False),
            ]
        if name in found.answered_s:
            answered = [found.answered_s[name]]
            rows.append(Measure(f"{name}: answers changed after", "s", answered, higher_is_better=False))
    return rows


def main() -> int:
    """Measures, writes the result; fails on what must not be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="short and small, and nothing is written")
    sizes = SMOKE if parser.parse_args().smoke else FULL
    folder = Path(tempfile.mkdtemp(prefix="sk-bench-"))
    try:
        found = run(folder, sizes)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if sizes is FULL:
        rates = {"purchases_per_second": sizes.writes, "reads_per_second": sizes.reads}
        print(write_results("migration", measures(found), {"cards": sizes.keys, **rates, "nodes": 2}))
    failed = any(reads.wrong for reads in found.reads.values())
    return 1 if failed or found.differing or found.took_s["roll back"] >= ROLL_BACK_S else 0


if __name__ == "__main__":
    sys.exit(main())
