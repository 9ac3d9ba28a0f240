"""`python -m tests.conformance FILE...`: runs case files; the last line says `N passed, M failed`."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.backend import all_backends
from tests.conformance.case import load_cases
from tests.conformance.runner import FAILED, SKIPPED, run_cases


def main() -> int:
    """Runs the files named on the command line; 1 if a case failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--store", help="only cases of this store kind")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    with all_backends() as backends:
        for file in arguments.files:
            cases = (case for case in load_cases(file) if arguments.store in {None, case.store})
            for outcome in run_cases(cases, backends):
                counts[outcome.status] += 1
                if outcome.status == FAILED:
                    print(f"FAILED {outcome.case.id} on {outcome.backend}: {outcome.reason}")
                elif outcome.status == SKIPPED:
                    skipped[outcome.reason] += 1
    for reason, number in sorted(skipped.items()):
        print(f"skipped {number}: {reason}")
    print(f"{counts['passed']} passed, {counts['failed']} failed")
    return 1 if counts[FAILED] else 0


if __name__ == "__main__":
    sys.exit(main())
