"""What `up` and `down` show on a terminal: steps and progress on standard error, the outcome on standard output."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from deploy.credentials import AIRFLOW_USER
from deploy.down import down
from deploy.instance import Instance
from deploy.settings import PlatformSettings
from deploy.up import Report, check_no_other, up
from state.run_dir import remember_started


@contextmanager
def step_report(console: Console, *, quiet: bool = False) -> Iterator[Report]:
    """Shows each step as a line, the current one with a spinner; just lines when it isn't a terminal."""
    if quiet:
        yield lambda step: None
        return
    with console.status("") as spinner:

        def report(step: str) -> None:
            console.print(f"  {step}", markup=False, highlight=False)
            spinner.update(step)

        yield report


def show_up(settings: PlatformSettings, *, quiet: bool) -> None:
    """Brings the platform up and shows where it is."""
    check_no_other(settings)
    with step_report(Console(stderr=True), quiet=quiet) as report:
        new_password = up(Instance.of(settings), report)
        try:
            remember_started(settings.run_dir)
        except OSError as error:
            report(f"commands in other folders won't find it without STOREKEEPER_RUN_DIR: {error}")
    out = Console(highlight=False, soft_wrap=True)
    if not quiet:
        out.print(f"The platform in {settings.run_dir} is up.", markup=False)
        out.print(f"  Airflow      {settings.airflow_url}")
        out.print(f"  Kafka        {settings.kafka_bootstrap}")
        out.print(f"  query nodes  {'  '.join(settings.node_urls.values())}")
        out.print("  more         storekeeper status, storekeeper down")
    if new_password is not None:
        out.print(f"  Airflow user {AIRFLOW_USER}, password {new_password} (shown this once)", markup=False)


def show_down(settings: PlatformSettings, *, quiet: bool) -> None:
    """Stops the platform and says whether anything ran."""
    with step_report(Console(stderr=True), quiet=quiet) as report:
        report("stopping the platform")
        stopped = down(Instance.of(settings))
    if not quiet:
        message = (
            f"The platform in {settings.run_dir} is down." if stopped else f"Nothing was running in {settings.run_dir}."
        )
        Console(highlight=False, soft_wrap=True).print(message, markup=False)
