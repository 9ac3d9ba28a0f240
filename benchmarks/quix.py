"""The whole POS topology beside Quix Streams: `make bench-quix`.

As `benchmarks.pos`, with the other Python library for Kafka as the peer: two processes of it, one for each core, which
share the partitions. Its rate counts from the moment when the invoices are visible to the moment when its group has
committed all of them and all that came of them.
"""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition

from benchmarks.invoices import publish
from benchmarks.pos import PARTITIONS, SETTINGS, SINKS, Bench, arguments_of, open_bench, producer_of, report
from benchmarks.rounds import run_rounds

PYTHON = Path(__file__).parents[1] / ".venv-quix" / "bin" / "python"
TOPOLOGY = Path(__file__).parent / "quix_streams" / "pos.py"
PEER = "Quix Streams 3.28, 2 processes"
PROCESSES = 2
_SINKS = ("quix-shipment", "quix-loyalty", "quix-hadoop-sink")
_LOOK_EVERY_S = 0.05
_PATIENCE_S = 600


class Progress:
    """How far a group has come in its topics: the invoices, and those that it made itself to bring keys together."""

    def __init__(self, bootstrap: str, group: str, invoices: str) -> None:
        # It never subscribes, so it takes nothing from the group.
        self._consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group})
        self._group = group
        self._invoices = invoices

    def close(self) -> None:
        """Ends the connections."""
        self._consumer.close()

    def await_all(self) -> None:
        """Returns once everything is committed. The mark of a transaction may stand behind the last record."""
        deadline = time.monotonic() + _PATIENCE_S
        while not self._is_done():
            if time.monotonic() > deadline:
                msg = f"{self._group} did not commit everything in {_PATIENCE_S} s"
                raise TimeoutError(msg)
            time.sleep(_LOOK_EVERY_S)

    def _is_done(self) -> bool:
        topics = self._consumer.list_topics(timeout=30).topics
        made = [name for name in topics if name.startswith("repartition__") and self._group in name]
        if not made:
            return False
        places = [TopicPartition(name, number) for name in (self._invoices, *made) for number in range(PARTITIONS)]
        return all(map(self._is_through, self._consumer.committed(places, timeout=30)))

    def _is_through(self, committed: TopicPartition) -> bool:
        _, end = self._consumer.get_watermark_offsets(committed, timeout=30)
        return end == 0 or bool(committed.offset >= end - 1)


def peer(bench: Bench) -> float:
    """Invoices a second of Quix Streams."""
    bootstrap, invoices = bench.broker.bootstrap, bench.make_topic("quix-pos")
    group = f"group-{invoices}"
    publish(producer_of(bootstrap), invoices, bench.load.warm_up)
    with (
        closing(Progress(bootstrap, group, invoices)) as progress,
        _processes(bootstrap, group, invoices, bench.folder / group),
    ):
        progress.await_all()
        bench.publish_at_once(invoices)
        began_s = time.monotonic()
        progress.await_all()
        return len(bench.load.timed) / (time.monotonic() - began_s)


@contextmanager
def _processes(bootstrap: str, group: str, invoices: str, folder: Path) -> Iterator[None]:
    folder.mkdir()
    running = []
    try:
        for number in range(PROCESSES):
            with (folder / f"{number}.log").open("wb") as log:
                arguments = (bootstrap, group, folder / f"state-{number}", invoices, "exactly_once")
                running.append(subprocess.Popen([PYTHON, TOPOLOGY, *arguments], stdout=log, stderr=log))
        yield
    finally:
        for process in running:
            process.terminate()
        for process in running:
            process.wait(60)


def main() -> None:
    """Runs the benchmark and writes its results."""
    arguments = arguments_of(__doc__)
    with open_bench("quix", arguments, (*SINKS, *_SINKS), SETTINGS) as bench:
        rates = run_rounds({"peer": partial(peer, bench), "ours": bench.ours}, arguments.runs, "invoices/s")
    if not arguments.smoke:
        report("quix", rates, PEER, arguments, bench)


if __name__ == "__main__":
    main()
