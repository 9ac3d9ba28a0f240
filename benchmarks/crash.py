"""Rounds of `kill -9`, and what came of them: `make bench-crash`, or `python -m benchmarks.crash --minutes 20`.

All apps run side by side while good records and poison keep coming. In each round somebody is killed: the driver
of one process, its JVM, both, a Python worker, or the broker, at a named step of a batch or at any moment. Between the
lives of an app its local stores are deleted, swapped, set back to an older copy or damaged. At the end everything is
recomputed from the input. Ends with 1 if anything was lost or is there twice, or if a named step was never met.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from benchmarks.results import Measure, write_results
from harness.app_process import AppProcesses
from harness.broker import start_broker
from harness.crashes.campaign import CONSTANTS, PATIENCE_S, SETTINGS, Campaign
from harness.crashes.oracle import Difference
from harness.crashes.points import Point


def main() -> int:
    """Runs the rounds, prints and writes what came of them; 1 if an output is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--smoke", action="store_true", help="a short run that meets few points and writes no results")
    arguments = parser.parse_args()
    minutes = 1 if arguments.smoke else arguments.minutes
    folder = Path(tempfile.mkdtemp(prefix="bench-crash-"))
    broker = start_broker(folder / "broker")
    apps = AppProcesses(folder / "run", broker.bootstrap, SETTINGS, PATIENCE_S, CONSTANTS)
    campaign = Campaign(apps, broker, minutes, arguments.seed)
    began_s = time.monotonic()
    try:
        campaign.run()
        took_s = time.monotonic() - began_s
        _print_hits(campaign, took_s)
        campaign.settle()
        differences = campaign.differences()
    finally:
        try:
            campaign.close()
        finally:
            broker.stop()
        if arguments.keep:
            print(folder)
        else:
            shutil.rmtree(folder)
    for difference in differences:
        print(f"{difference.output}: {difference.lost} lost, {difference.doubled} doubled")
    for complaint in campaign.complaints:
        print(f"complaint: {complaint}")
    if not arguments.smoke:
        settings = {"minutes": minutes, "seed": arguments.seed, **SETTINGS}
        print(write_results("crash", [*_measures(campaign, took_s), *_wrong(differences)], settings))
    is_whole = arguments.smoke or not campaign.never_hit
    return int(not is_whole or bool(campaign.complaints) or not all(difference.none for difference in differences))


def _print_hits(campaign: Campaign, took_s: float) -> None:
    print(f"{len(campaign.hits)} kills in {took_s:.0f} s")
    for (app, point), count in sorted(campaign.hits_at.items()):
        print(f"  {app}, {point}: {count}")
    for missing in campaign.never_hit:
        print(f"  never: {missing}")
    published = campaign.records
    print(f"{published.total()} records")
    for kind, count in published.most_common():
        print(f"  {kind}: {count}")


def _measures(campaign: Campaign, took_s: float) -> list[Measure]:
    hits, livings = campaign.hits, campaign.livings.values()
    victims = Counter(hit.kill.victim for hit in hits)
    points = Counter(hit.kill.point for hit in hits)
    harms = Counter(harm for living in livings for harm in living.harms)
    starts_s = [start_s for living in livings for start_s in living.starts_s[1:]]
    return [
        Measure("kills", "kills", [len(hits)]),
        *(Measure(f"killed: {victim}", "kills", [count]) for victim, count in sorted(victims.items())),
        *(Measure(f"killed {_where(point)}", "kills", [points[point]]) for point in Point),
        *(Measure(f"local stores {harm}", "times", [count]) for harm, count in sorted(harms.items())),
        Measure("time of a kill", "s", [took_s / max(len(hits), 1)], higher_is_better=False),
        Measure("restart from a checkpoint, median", "s", [statistics.median(starts_s or [0])], higher_is_better=False),
        Measure("restart from a checkpoint, slowest", "s", [max(starts_s or [0])], higher_is_better=False),
    ]


def _where(point: Point) -> str:
    return point if point == Point.ANY else f"at: {point}"


def _wrong(differences: list[Difference]) -> list[Measure]:
    return [
        Measure(f"{difference.output}, {what}", "records", [getattr(difference, what)], higher_is_better=False)
        for difference in differences
        for what in ("lost", "doubled")
    ]


if __name__ == "__main__":
    sys.exit(main())
