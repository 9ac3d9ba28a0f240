"""`python -m tests.conformance FILE...`: runs case files; the last line says `N passed, M failed`.

With `--spark` the topology cases that have one partition run on real Spark and Kafka.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.conformance.backend import all_backends
from tests.conformance.case import Case, load_cases
from tests.conformance.runner import FAILED, SKIPPED, Outcome, run_cases, topology_outcome


def main() -> int:
    """Runs the files named on the command line; 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--store", help="only cases of this store kind")
    parser.add_argument("--spark", action="store_true", help="topology cases, on real Spark and Kafka")
    arguments = parser.parse_args()
    cases = [case for file in arguments.files for case in load_cases(file) if arguments.store in {None, case.store}]
    return tell(run_all_on_spark(cases) if arguments.spark else run_all(cases))


def run_all(cases: list[Case]) -> Iterator[Outcome]:
    """Runs cases on every backend that is there."""
    with all_backends() as backends:
        yield from run_cases(cases, backends)


def run_all_on_spark(cases: list[Case]) -> Iterator[Outcome]:
    """Runs topology cases on Spark."""
    from tests.conformance.spark import spark_and_broker

    with spark_and_broker() as run:
        for case in cases:
            yield topology_outcome(case, "spark", run)


def tell(outcomes: Iterable[Outcome]) -> int:
    """Prints outcomes; 1 if a case failed."""
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for outcome in outcomes:
        counts[outcome.status] += 1
        if outcome.status == FAILED:
            print(f"FAILED {outcome.case.id} on {outcome.backend}: {outcome.reason}", flush=True)
        elif outcome.status == SKIPPED:
            skipped[outcome.reason] += 1
    for reason, number in sorted(skipped.items()):
        print(f"skipped {number}: {reason}")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
