"""`python -m demo`: runs the project in this folder on real purchases, checks every output, and stops it."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import NoReturn

from demo.run import run_demo
from storekeeper.errors import StateError
from storekeeper.program import ExitCode, exit_code_of


def main() -> int:
    """Runs the demo; 4 if an output differs from what the input gives."""
    parser = argparse.ArgumentParser(prog="python -m demo", description=__doc__)
    parser.add_argument("--purchases", type=int, help="number of purchases to replay; by default all")
    parser.add_argument("--poison", type=int, default=0, help="number of bad records to mix in")
    parser.add_argument("--report", type=Path, default=Path("demo-report.json"), help="file of the report")
    parser.add_argument("--rate", type=int, default=0, help="invoices to publish a second; 0 is unlimited")
    parser.add_argument("--run-dir", type=Path, default=Path(".run/demo"), help="run directory, which is emptied")
    chosen = parser.parse_args()
    os.umask(0o077)  # the report names keys and amounts
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        report = run_demo(
            chosen.run_dir.resolve(),
            purchases=chosen.purchases,
            poison=chosen.poison,
            report_path=chosen.report,
            rate=chosen.rate,
        )
    except StateError as error:
        sys.stderr.write(f"demo: {error}\n")
        return exit_code_of(error)
    return ExitCode.DONE if report.is_green else ExitCode.FINDING


def _interrupt(number: int, frame: FrameType | None) -> NoReturn:
    del frame
    raise SystemExit(128 + number)


if __name__ == "__main__":
    sys.exit(main())
