"""Commands of the platform as a whole. Each imports what it needs when it is called."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer
from rich.console import Console

from storekeeper.cli.node import listen_address
from storekeeper.cli.output import AnswerOption, AnswerOutput, ListOption, ListOutput, say, write_json, write_markdown
from storekeeper.cli.times import TIMES, time_option
from storekeeper.ops.settings import OwnPlatformSettings, PlatformSettings
from storekeeper.program import ExitCode

if TYPE_CHECKING:
    from storekeeper.generations.changes.contract import Description
    from storekeeper.ops.bring_up import Outcome
    from storekeeper.ops.steps import Step

Quiet = Annotated[bool, typer.Option("--quiet", help="Show only the outcome.")]
AcceptLoss = Annotated[
    bool, typer.Option("--accept-loss", help="Make topics anew that apps began with and that Kafka has lost.")
]


def up(quiet: Quiet = False, accept_loss: AcceptLoss = False) -> None:
    """Start the platform and leave it running.

    On a running platform it does what `storekeeper apply` does.

    Exit code 4: it is up, but not all of it works; the first lines say what doesn't, and why. If Kafka has lost topics
    that an app began with, neither they nor the app are started. If it has lost all of them, nothing is.

    Example: storekeeper up
    """
    outcome = _brought_up(OwnPlatformSettings.load(), quiet=quiet, accept_loss=accept_loss)
    if outcome.troubles:
        raise typer.Exit(ExitCode.FINDING)


def _brought_up(
    settings: PlatformSettings, *, quiet: bool, accept_loss: bool, foreground: bool = False, only_running: bool = False
) -> Outcome:
    """Brings the platform up, and says what there is and what doesn't work."""
    _require_platform()
    from storekeeper.ops.airflow_home import AIRFLOW_USER  # noqa: PLC0415 (each command loads only what it needs)
    from storekeeper.ops.apply import check_no_other  # noqa: PLC0415
    from storekeeper.ops.apply import up as bring_up  # noqa: PLC0415
    from storekeeper.ops.environment import Instance  # noqa: PLC0415
    from storekeeper.run_dir import remember_started  # noqa: PLC0415

    check_no_other(settings)
    with _step_report(quiet=quiet) as report:
        outcome = bring_up(
            Instance.of(settings), report, accept_loss=accept_loss, foreground=foreground, only_running=only_running
        )
        try:
            remember_started(settings.run_dir)
        except OSError as error:
            if not foreground:  # a service has no home to write to: its users name its configuration
                report(f"commands in other folders won't find it without STOREKEEPER_RUN_DIR: {error}")
    for trouble in outcome.troubles:
        say(str(trouble))
    out = Console(highlight=False, soft_wrap=True)
    if not quiet:
        without = ", ".join(trouble.name for trouble in outcome.troubles)
        out.print(f"The platform in {settings.run_dir} is up{f', but not {without}' * bool(without)}.", markup=False)
        if settings.airflow_url:
            out.print(f"  Airflow      {settings.airflow_url}")
        out.print(f"  Kafka        {settings.kafka_bootstrap}")
        out.print(f"  query nodes  {'  '.join(settings.node_urls.values())}")
        out.print("  more         storekeeper status, storekeeper down")
    if outcome.password is not None:
        out.print(f"  Airflow user {AIRFLOW_USER}, password {outcome.password} (shown this once)", markup=False)
    return outcome


def apply(quiet: Quiet = False, accept_loss: AcceptLoss = False) -> None:
    """Bring the running platform to what the configuration says.

    It does what `storekeeper plan` shows, while the rest runs on. Repeat it after an interruption. Exit code 4: not all
    of it works.

    Example: storekeeper apply
    """
    from storekeeper.configuration import platform_file  # noqa: PLC0415
    from storekeeper.errors import ConfigurationError  # noqa: PLC0415

    settings = PlatformSettings.of_platform()
    if platform_file() is None and not settings.names_run_dir:
        msg = f"the platform in {settings.run_dir} has no storekeeper.toml: set STOREKEEPER_RUN_DIR if it is meant"
        raise ConfigurationError(msg)
    if _brought_up(settings, quiet=quiet, accept_loss=accept_loss, only_running=True).troubles:
        raise typer.Exit(ExitCode.FINDING)


def down(quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing.")] = False) -> None:
    """Stop the platform and leave no process behind.

    Example: storekeeper down
    """
    from storekeeper.ops.layout import RunLayout  # noqa: PLC0415
    from storekeeper.ops.supervisor import down as stop  # noqa: PLC0415

    settings = PlatformSettings.of_platform()
    with _step_report(quiet=quiet) as report:
        report("stopping the platform")
        stopped = stop(RunLayout(settings.run_dir))
    if not quiet:
        message = (
            f"The platform in {settings.run_dir} is down." if stopped else f"Nothing was running in {settings.run_dir}."
        )
        Console(highlight=False, soft_wrap=True).print(message, markup=False)


@contextmanager
def _step_report(*, quiet: bool) -> Iterator[Callable[[str], None]]:
    """Shows each step as a line on standard error, the current one with a spinner; just lines without a terminal."""
    if quiet:
        yield lambda step: None
        return
    console = Console(stderr=True)
    with console.status("") as spinner:

        def report(step: str) -> None:
            console.print(f"  {step}", markup=False, highlight=False)
            spinner.update(step)

        yield report


def _require_platform() -> None:
    """Checks that the packages that only the whole platform needs are installed. The program explains the error."""
    if find_spec("supervisor") is None:
        raise ModuleNotFoundError(name="supervisor")


def supervise(quiet: Quiet = False, accept_loss: AcceptLoss = False) -> None:
    """Start the platform and keep it alive in the foreground.

    As one unit of systemd, or as the command of a container. TERM stops the platform as `storekeeper down` does. All
    other commands work as with `storekeeper up`.

    Example: storekeeper supervise
    """
    from storekeeper.ops.layout import RunLayout  # noqa: PLC0415
    from storekeeper.ops.supervisor import wait_in_foreground  # noqa: PLC0415

    settings = OwnPlatformSettings.load()
    outcome = _brought_up(settings, quiet=quiet, accept_loss=accept_loss, foreground=True)
    wait_in_foreground(RunLayout(settings.run_dir), outcome.supervisor)


def status(output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Show every process and its health.

    Exit code 4: not all of them are healthy.

    Example: storekeeper status --output json
    """
    from storekeeper.ops.overview.collect import collect_status  # noqa: PLC0415
    from storekeeper.ops.overview.status import status_json, status_table  # noqa: PLC0415

    platform = PlatformSettings.of_platform()
    view = collect_status(platform)
    if output is AnswerOutput.JSON:
        write_json(status_json(view, platform))
    else:
        console = Console()
        console.print(status_table(view, platform, console.width))
    if not view.healthy:
        raise typer.Exit(ExitCode.FINDING)


def sql(
    statement: Annotated[str, typer.Argument(help="One statement that reads, in DuckDB's dialect.")],
    output: ListOption = ListOutput.TABLE,
    at: Annotated[
        list[str] | None,
        typer.Option(help="Read a table as it was, <table>=<version>; or its last good version, <table>=good."),
    ] = None,
    as_of: Annotated[
        str | None, typer.Option("--as-of", help=f"Read all other tables as they were at this time: {TIMES}.")
    ] = None,
) -> None:
    """Run SQL over the Delta tables, without a JVM.

    Example: storekeeper sql "SELECT count(*) FROM rewards" --as-of -1d
    """
    from storekeeper.cli.sql_output import parse_versions, run_sql  # noqa: PLC0415

    as_of_ms = None if as_of is None else time_option(as_of, "--as-of", "")
    try:
        versions = parse_versions(at or [], _last_good_version)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from error
    root = PlatformSettings.of_platform().tables
    run_sql(root, statement, output=output, at_version=versions, as_of_ms=as_of_ms)


def _last_good_version(table: str) -> int | None:
    from storekeeper.quality.resolution import last_good_version  # noqa: PLC0415 (for the few that ask)

    return last_good_version(PlatformSettings.of_platform().run_dir, table)


def jars() -> None:
    """Fetch the jars of Spark and the broker with Maven.

    Where Spark is installed it also archives Spark's classes: sessions then start in half the time.

    Example: storekeeper jars
    """
    from storekeeper.ops.environment import inherited_environment  # noqa: PLC0415
    from storekeeper.ops.errors import NotSetUpError  # noqa: PLC0415
    from storekeeper.ops.jars.fetch import POMS, fetch_jars  # noqa: PLC0415
    from storekeeper.ops.preflight import java_problem, maven_problem  # noqa: PLC0415

    folder, environment = PlatformSettings.load().jars_dir, inherited_environment()
    problem = java_problem(environment) or maven_problem(environment)  # type: ignore[no-untyped-call]
    if problem is not None:
        raise NotSetUpError(problem)
    for pom in POMS:
        try:
            fetch_jars(pom, folder)
        except subprocess.CalledProcessError as error:
            msg = f"Maven could not fetch the {pom} jars: see its message above, and run `storekeeper jars` again."
            raise NotSetUpError(msg) from error
    if find_spec("pyspark") is not None:
        _archive_classes()
    typer.echo(folder)


def _archive_classes() -> None:
    """Archives Spark's classes. Without an archive everything works, and sessions start slower."""
    from storekeeper.apps.settings import AppSettings  # noqa: PLC0415
    from storekeeper.engine.runtime.class_archive import make_archive  # noqa: PLC0415 (loads Spark)

    say("archiving Spark's classes, so that sessions start in half the time (a minute)")
    try:
        make_archive(AppSettings())
    except Exception as error:  # whatever Spark raises
        say(f"there is no archive of classes, so sessions start slower: {error}")


def settings(
    effective: Annotated[
        bool, typer.Option("--effective", help="Show each value, its source, and where a running platform differs.")
    ] = False,
) -> None:
    """Show every setting and its default, as Markdown.

    Example: storekeeper settings --effective
    """
    from storekeeper.ops.effective import effective_lines  # noqa: PLC0415
    from storekeeper.ops.settings_reference import settings_markdown  # noqa: PLC0415

    typer.echo("\n".join(effective_lines(PlatformSettings.load())) if effective else settings_markdown().rstrip())


def topology(
    name: Annotated[str, typer.Argument(help="The app's name, or <module>:<variable> of its spec.")],
    output: Annotated[
        Literal["text", "svg", "mermaid", "json"],
        typer.Option("--output", "-o", help="Text, an SVG picture, a Mermaid flow chart, or all three as JSON."),
    ] = "text",
) -> None:
    """Show an app's sub-topologies, topics and stores.

    Example: storekeeper topology pos --output svg > pos.svg
    """
    from storekeeper.apps.registry import app_named  # noqa: PLC0415
    from storekeeper.apps.settings import AppSettings  # noqa: PLC0415
    from storekeeper.generations.live import live_topology, topology_text  # noqa: PLC0415

    spec = app_named(name)
    described = live_topology(spec, AppSettings())
    shown = {"text": topology_text(spec, described), "svg": described.svg(), "mermaid": described.mermaid()}
    if output == "json":
        write_json(shown)
    else:
        typer.echo(shown[output])


def plan(
    export: Annotated[
        Path | None, typer.Option(help="Write the running state into this file, for `--against`; plan nothing.")
    ] = None,
    against: Annotated[Path | None, typer.Option(help="Compare with such a file instead of the platform.")] = None,
    partitions: Annotated[
        list[str] | None, typer.Option(help="Another number of partitions: <store>=<number>.")
    ] = None,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Compare this code and configuration with what runs.

    It shows the steps of `storekeeper apply`, and what becomes of the stores. Exit code 4: it would break something, or
    a step can't be done.

    Example: storekeeper plan
    """
    from storekeeper.generations.changes.plan import explain_plan  # noqa: PLC0415
    from storekeeper.generations.planning.plan import described_now, parse_partitions, plan_against, read_description  # noqa: PLC0415
    from storekeeper.generations.running_code import change_notice  # noqa: PLC0415
    from storekeeper.ops.environment import app_settings  # noqa: PLC0415
    from storekeeper.ops.steps import Action  # noqa: PLC0415

    numbers = parse_partitions(partitions or [])
    settings = PlatformSettings.of_platform() if against is None else PlatformSettings.load()
    description = described_now(app_settings(settings)) if against is None else read_description(against)
    if export is not None:
        export.write_bytes(description.encode())
        say(f"{len(description.stores)} stores described in {export}")
        return
    planned = plan_against(description, numbers)
    steps = _steps(settings, description) if against is None else []
    changed = _changed_code(settings) if against is None else []
    if output is AnswerOutput.JSON:
        shown = [{"action": str(one.action), "subject": one.subject, "why": one.why} for one in steps]
        write_json({**planned.as_dict(), "changed_code": changed, "steps": shown})
    else:
        lines = [f"- {step}" for step in steps if step.action is not Action.FORGET]
        write_markdown("\n".join([*lines, *([""] if lines else []), explain_plan(planned)]))
        for app in changed:
            say(change_notice(app))
    if planned.breaks or any(step.action is Action.IMPOSSIBLE for step in steps):
        raise typer.Exit(ExitCode.FINDING)


def _steps(settings: PlatformSettings, description: Description) -> Sequence[Step]:
    """What `storekeeper apply` would do; nothing while the platform is down."""
    from storekeeper.ops.environment import Instance  # noqa: PLC0415
    from storekeeper.ops.layout import RunLayout  # noqa: PLC0415
    from storekeeper.ops.platform_state import planned  # noqa: PLC0415
    from storekeeper.ops.supervisor_rpc import running_supervisor  # noqa: PLC0415

    client = running_supervisor(RunLayout(settings.run_dir))
    if client is None:
        say(f"the platform in {settings.run_dir} is down: `storekeeper up` starts all of it")
        return ()
    return planned(Instance.of(settings), client, description)


def _changed_code(settings: PlatformSettings) -> list[str]:
    from storekeeper.apps.registry import APPS  # noqa: PLC0415
    from storekeeper.generations.running_code import changed_code  # noqa: PLC0415
    from storekeeper.ops.environment import app_settings  # noqa: PLC0415

    return changed_code(APPS.values(), app_settings(settings))


def export_dags(
    folder: Annotated[Path, typer.Argument(help="A folder in the DAG folder of your Airflow.")],
) -> None:
    """Write our DAG files for your Airflow.

    It also writes a file of this platform's names (apps, stores, tables, migrations), which the DAGs' forms offer. Run
    it again after an upgrade, or when apps have changed.

    Example: storekeeper export-dags ~/airflow/dags/storekeeper
    """
    from storekeeper.ops.dag_export import export_dags as export  # noqa: PLC0415

    for path in export(folder, PlatformSettings.load().history_minutes):
        typer.echo(path)


def create_topics(
    apps: Annotated[
        list[str] | None,
        typer.Argument(help="Apps, by name or as <module>:<variable> from this folder; by default the platform's."),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Make nothing; print the topics and ACLs for an administrator.")
    ] = False,
    form: Annotated[
        Literal["commands", "strimzi"],
        typer.Option("--as", help="Format of --dry-run: commands of Kafka's tools, or Strimzi's YAML."),
    ] = "commands",
) -> None:
    """Make the missing topics of apps.

    Example: storekeeper create-topics spark_apps.page_views:PAGE_VIEWS
    """
    from storekeeper.apps.registry import APPS, app_named  # noqa: PLC0415
    from storekeeper.ops.kafka.requests import printed  # noqa: PLC0415
    from storekeeper.ops.topics import make_topics  # noqa: PLC0415

    settings = PlatformSettings.load()
    specs = [app_named(name) for name in apps] if apps else list(APPS.values())
    if dry_run:
        typer.echo("\n".join(printed(settings, specs, form)))
        return
    for topic in make_topics(settings, specs):
        typer.echo(topic)


def control(
    listen: Annotated[
        str | None, typer.Option(help="HOST:PORT to listen on. Default: the settings control_host and control_port.")
    ] = None,
) -> None:
    """Run the control API in the foreground until TERM.

    It runs jobs, shows the state of the platform, and tells Prometheus its metrics. Callers need a token, even on
    loopback. Jobs end when it does.

    Example: storekeeper control
    """
    from storekeeper.clock import SystemClock  # noqa: PLC0415
    from storekeeper.ops.control.server import run_control  # noqa: PLC0415

    platform = PlatformSettings.load()
    platform.make_run_dir()
    host, port = listen_address(listen) if listen else (platform.control_host, platform.control_port)
    run_control(platform, host, port, SystemClock())
