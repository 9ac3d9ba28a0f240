"""Rounds of `kill -9`, and what came of them: `make bench-crash`, or `python -m benchmarks.crash --rounds 20`.

The apps of the point of sale run side by side while invoices keep coming. In each round one of them is killed:
its driver, its JVM, both, or a Python worker, at a named point of a batch or at any moment; or the broker is. At the
end everything is recomputed from the input. Ends with 1 if anything was lost or is there twice.
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
from tests.broker import start_broker
from tests.faults.crashes.attempt import Outcome
from tests.faults.crashes.campaign import SETTINGS, SOURCES, Campaign
from tests.faults.crashes.oracle import Difference
from tests.faults.crashes.points import Crash
from tests.integration.app_process import AppProcesses


def main() -> int:
    """Runs the rounds, prints and writes what came of them; 1 if an output is wrong."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="leave the folder with the logs")
    parser.add_argument("--smoke", action="store_true", help="a short run that writes no results")
    arguments = parser.parse_args()
    count = 3 if arguments.smoke else arguments.rounds
    folder = Path(tempfile.mkdtemp(prefix="bench-crash-"))
    broker = start_broker(folder / "broker")
    apps = AppProcesses(folder / "run", broker.bootstrap, SETTINGS)
    campaign = Campaign(apps, broker, count, arguments.seed)
    began = time.monotonic()
    try:
        campaign.run()
        print(f"{count} rounds in {time.monotonic() - began:.0f} s", flush=True)
        _print_outcomes(campaign.outcomes)
        campaign.settle()
        differences = campaign.differences()
    finally:
        try:
            apps.stop()
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
        settings = {"rounds": count, "seed": arguments.seed, "points": len(_points(campaign.outcomes)), **SETTINGS}
        print(write_results("crash", _measures(campaign.outcomes, differences), settings))
    return int(bool(campaign.complaints) or not all(difference.none for difference in differences))


def _print_outcomes(outcomes: list[Outcome]) -> None:
    for outcome in outcomes:
        times = [f"{s:.1f}" if s is not None else "-" for s in (outcome.running_s, outcome.first_batch_s)]
        print(f"  {outcome.app}: {outcome.round}, hit {outcome.hit}, exit {outcome.exit_code}, {' '.join(times)}")


def _points(outcomes: list[Outcome]) -> Counter[tuple[str, str]]:
    return Counter((o.app, o.round.point) for o in outcomes if isinstance(o.round, Crash) and o.hit)


def _measures(outcomes: list[Outcome], differences: list[Difference]) -> list[Measure]:
    restarts = [outcome.running_s for outcome in outcomes[len(SOURCES) :] if outcome.running_s is not None]
    wrong = [
        Measure(f"{d.output}, {what}", "records", [getattr(d, what)], higher_is_better=False)
        for d in differences
        for what in ("lost", "doubled")
    ]
    return [
        Measure("rounds that met a running app or the named point", "rounds", [sum(o.hit for o in outcomes)]),
        *wrong,
        Measure("restart from a checkpoint, median", "s", [statistics.median(restarts or [0])], higher_is_better=False),
        Measure("restart from a checkpoint, slowest", "s", [max(restarts or [0])], higher_is_better=False),
    ]


if __name__ == "__main__":
    sys.exit(main())
