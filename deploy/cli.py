"""The command line `storekeeper`: data to standard output, all else to standard error, one sentence for an error.

Exit codes: 0 done or healthy, 1 an error or a difference, 2 wrong usage, 3 `status` found something unhealthy,
4 `verify` found a difference, 78 settings, names or tables that can't work, 130 and 143 interrupted by INT or TERM.
"""

from __future__ import annotations

import importlib.metadata
import json
import shlex
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Annotated, Literal, NoReturn

import pydantic
import typer
from rich.console import Console

from deploy.disk import full_disk, is_full
from deploy.extras import missing_package
from deploy.layout import RunLayout
from deploy.quarantine import quarantine_commands
from deploy.settings import OwnPlatformSettings, PlatformSettings
from spark_apps.maintenance.cleanup_commands import commands as cleanup_commands
from spark_apps.maintenance.skipped_command import skipped
from state.cli import app as state_commands
from state.configuration import explained
from state.errors import ConfigurationError, SnapshotDamagedError, StateError
from state.settings import EXIT_CONFIGURATION

_EXAMPLES = """\
storekeeper runs queryable state stores for PySpark streams.

\b
  storekeeper demo                  the whole platform on real purchases, checked, then stopped
  storekeeper up                    start the platform and leave it running
  storekeeper status --json         every process, its health, its address
  storekeeper dashboard             apps, stores, nodes and verdicts, live
  storekeeper get rewards CARD      a customer's entry, live
  storekeeper sql "SELECT ..."      SQL over the Delta tables
  storekeeper verify rewards        whether changelog, SQL and nodes hold the same
  storekeeper plan                  what this code would do to the stores that there are
  storekeeper topology APP          an app's operators, topics and stores
  storekeeper new-app NAME          lay down a streaming app of your own
  storekeeper down                  stop it and leave no process behind

Commands find the platform of the current folder or a folder above, else the one that was started last.
Settings are in storekeeper.toml of that folder; variables STOREKEEPER_* override it.
"""

app = typer.Typer(
    help=_EXAMPLES, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None
)
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM)
_errors = Console(stderr=True, soft_wrap=True, highlight=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"storekeeper {importlib.metadata.version('storekeeper')}")
        raise typer.Exit


# Querying and maintaining stores: the state library's commands, unchanged.
app.registered_commands.extend(state_commands.registered_commands)
app.registered_groups.extend(state_commands.registered_groups)
app.add_typer(cleanup_commands, name="cleanup")
app.add_typer(quarantine_commands, name="quarantine")
app.command()(skipped)


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    del version  # its callback has done the work


@app.command("up")
def up_command(
    quiet: Annotated[bool, typer.Option("--quiet", help="Show only the outcome.")] = False,
    apps: Annotated[str | None, typer.Option(help="`own`, `pos` or `all`, in place of STOREKEEPER_APPS.")] = None,
) -> None:
    """Start the platform and leave it running; heal it if it runs. Example: storekeeper up."""
    from deploy.console import show_up  # noqa: PLC0415 (each command loads only what it needs)

    show_up(OwnPlatformSettings.load(**({} if apps is None else {"apps": apps})), quiet=quiet)


@app.command("down")
def down_command(quiet: Annotated[bool, typer.Option("--quiet", help="Show nothing.")] = False) -> None:
    """Stop the platform and leave no process behind. Example: storekeeper down."""
    from deploy.console import show_down  # noqa: PLC0415

    show_down(PlatformSettings.of_platform(), quiet=quiet)


@app.command("dashboard")
def dashboard_command(
    interval: Annotated[float, typer.Option(min=0.2, help="Seconds between two looks.")] = 2.0,
    count: Annotated[int, typer.Option(min=0, help="End after so many looks; 0 never does.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a look.")] = False,
    token_file: Annotated[Path | None, typer.Option(help="File with a token for the nodes.")] = None,
    ca: Annotated[Path | None, typer.Option(help="PEM file with the CA of the nodes' certificates.")] = None,
) -> None:
    """Show apps, stores, nodes, snapshots and verdicts live. Example: storekeeper dashboard."""
    from deploy.overview.collect import platform_overview  # noqa: PLC0415
    from deploy.overview.terminal import show_dashboard  # noqa: PLC0415

    view = platform_overview(PlatformSettings.of_platform(), token_file, ca)
    show_dashboard(view, interval_s=interval, count=count, as_json=as_json)


@app.command("supervise")
def supervise_command() -> None:
    """Supervise the stream apps in the foreground, without broker, Airflow and nodes: for a container or a host."""
    from deploy.containers.supervise import supervise_apps  # noqa: PLC0415

    supervise_apps(PlatformSettings.load())


@app.command("prepare-containers")
def prepare_containers_command(
    folder: Annotated[Path, typer.Argument(help="Where docker-compose.yaml looks for it.")] = Path(".containers"),
) -> None:
    """Make the secrets, certificates and folders that docker-compose.yaml mounts; what is there stays as it is."""
    from deploy.containers.prepare import prepare_containers  # noqa: PLC0415

    made = prepare_containers(folder)
    for path in made:
        typer.echo(path)
    _errors.print(f"{len(made)} new files in {folder}", markup=False)


@app.command("status")
def status_command(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
) -> None:
    """Show every process and its health; exit code 3 unless all are healthy. Example: storekeeper status --json."""
    from deploy.overview.status import collect_status, status_json, status_table  # noqa: PLC0415

    settings = PlatformSettings.of_platform()
    status = collect_status(settings)
    if as_json:
        typer.echo(json.dumps(status_json(status, settings)))
    else:
        Console().print(status_table(status, settings))
    if not status.healthy:
        raise typer.Exit(3)


@app.command("sql")
def sql_command(
    statement: Annotated[str, typer.Argument(help="One statement that reads, in DuckDB's dialect.")],
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of a table.")] = False,
    at: Annotated[list[str] | None, typer.Option(help="Read a table as it was: <table>=<version>.")] = None,
) -> None:
    """Run SQL over the Delta tables, without a JVM. Example: storekeeper sql "SELECT count(*) FROM rewards"."""
    from state.snapshots.sql_output import parse_versions, run_sql  # noqa: PLC0415

    try:
        versions = parse_versions(at or [])
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--at") from error
    root = RunLayout(PlatformSettings.of_platform().run_dir).delta
    run_sql(root, statement, as_json=as_json, console=Console(), at_version=versions)


@app.command("jars")
def jars_command() -> None:
    """Fetch the jars that Spark apps and the platform's broker need, with Maven. Example: storekeeper jars."""
    from deploy.environment import inherited_environment  # noqa: PLC0415
    from deploy.jars.command import fetch_all  # noqa: PLC0415

    folder = PlatformSettings.load().jars_dir
    fetch_all(folder, inherited_environment())
    typer.echo(folder)


@app.command("verify")
def verify_command(stores: Annotated[list[str], typer.Argument(help="The stores' names.")]) -> None:
    """Compare changelog, SQL and nodes; exits 4 if they differ. Example: storekeeper verify rewards.

    Every column of the newest snapshot, and every query node, must hold what the changelog holds. The last line is a
    JSON object with the first differing keys, masked.
    """
    from spark_apps.maintenance.verify_command import verify  # noqa: PLC0415

    verify(stores)


@app.command("restore-snapshot")
def restore_snapshot_command(store: Annotated[str, typer.Argument(help="The store's name.")]) -> None:
    """Put a store's Delta table back to its last snapshot. Example: storekeeper restore-snapshot rewards.

    For a table that something else has written to. It is Delta's RESTORE: the versions since stay readable. A table
    that is sound is left alone.
    """
    from spark_apps.maintenance.restore_command import restore  # noqa: PLC0415

    restore(store)


@app.command("settings")
def settings_command(
    effective: Annotated[
        bool, typer.Option("--effective", help="Show each value, its source, and where a running platform differs.")
    ] = False,
) -> None:
    """Show every setting, its default and its meaning, as Markdown. Example: storekeeper settings --effective."""
    from deploy.differences import effective_lines  # noqa: PLC0415
    from deploy.settings_reference import settings_markdown  # noqa: PLC0415

    typer.echo("\n".join(effective_lines(PlatformSettings.load())) if effective else settings_markdown().rstrip())


@app.command("new-app")
def new_app_command(
    name: Annotated[str, typer.Argument(help="The app's name, such as page_views.")],
    into: Annotated[Path, typer.Option(help="The project's folder.")] = Path(),
) -> None:
    """Lay down a new app and its tests, which run at once. Example: storekeeper new-app page_views."""
    from spark_apps.new_app.plan import plan_new_app, write_new_app  # noqa: PLC0415

    for path in write_new_app(plan_new_app(name), into):
        typer.echo(path)
    _errors.print(f"Test it: python -m pytest tests/test_{name}.py -m 'not spark'", markup=False)
    settings = (
        f"STOREKEEPER_OWN_APPS={name}.app:{name.upper()} STOREKEEPER_OWN_APPS_DIR={shlex.quote(str(into.resolve()))}"
    )
    _errors.print(f"Run it: export {settings}; storekeeper up --apps own", markup=False)


@app.command("topology")
def topology_command(
    name: Annotated[str, typer.Argument(help="The app's name, or <module>:<variable> of its spec.")],
    shown_as: Annotated[
        Literal["text", "svg", "mermaid"], typer.Option("--as", help="Text, an SVG picture, or a Mermaid flow chart.")
    ] = "text",
) -> None:
    """Show an app's sub-topologies, topics and stores. Example: storekeeper topology pos --as svg > pos.svg."""
    from spark_apps.generations.live import live_topology  # noqa: PLC0415
    from spark_apps.registry import app_named  # noqa: PLC0415
    from spark_apps.settings import AppSettings  # noqa: PLC0415

    topology = live_topology(app_named(name), AppSettings())
    show = {"text": topology.describe, "svg": topology.svg, "mermaid": topology.mermaid}[shown_as]
    typer.echo(show())


@app.command("plan")
def plan_command(
    export: Annotated[
        Path | None, typer.Option(help="Write what runs here into a file, for `--against`; plan nothing.")
    ] = None,
    against: Annotated[
        Path | None, typer.Option(help="Such a file in place of the platform: nothing is asked.")
    ] = None,
    partitions: Annotated[
        list[str] | None, typer.Option(help="Another number of partitions: <store>=<number>.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object instead of text.")] = False,
) -> None:
    """Say what this code would do to the state that there is; exits 1 if it would break. Example: storekeeper plan."""
    from deploy.plan import described_now, parse_partitions, plan_against, read_description  # noqa: PLC0415
    from deploy.wanted_apps import wanted_apps  # noqa: PLC0415
    from state.migration.explain import explain_plan  # noqa: PLC0415

    wanted = parse_partitions(partitions or [])
    description = described_now() if against is None else read_description(against)
    if export is not None:
        export.write_bytes(description.encode())
        _errors.print(f"{len(description.stores)} stores described in {export}", markup=False)
        return
    plan = plan_against(description, wanted, wanted_apps(PlatformSettings.load()))
    typer.echo(json.dumps(plan.as_dict()) if as_json else explain_plan(plan))
    if plan.breaks:
        raise typer.Exit(1)


@app.command("create-topics")
def create_topics_command(
    apps: Annotated[list[str], typer.Argument(help="Apps, by name or as <module>:<variable> from this folder.")],
) -> None:
    """Make the topics of apps that are missing. Example: storekeeper create-topics page_views.app:PAGE_VIEWS."""
    from deploy.topics import ensure_topics, topics_of  # noqa: PLC0415
    from spark_apps.registry import app_named  # noqa: PLC0415
    from spark_apps.settings import AppSettings  # noqa: PLC0415
    from state.kafka_clients import new_admin  # noqa: PLC0415

    sys.path.insert(0, str(Path.cwd()))  # as `python -m` does, with which such an app is run
    settings = PlatformSettings.load()
    admin = new_admin(AppSettings().kafka_bootstrap)  # where the apps will look for them
    for topic in ensure_topics(admin, topics_of(settings, [app_named(name) for name in apps])):
        typer.echo(topic)


@app.command("demo")
def demo_command(
    purchases: Annotated[int | None, typer.Option(min=1, help="Only the first so many purchases.")] = None,
    poison: Annotated[int, typer.Option(min=0, help="Mix in so many records that can't be processed.")] = 0,
    report: Annotated[Path, typer.Option(help="Where the report goes.")] = Path("demo-report.json"),
    apps: Annotated[
        Literal["all", "pos"], typer.Option(help="`all` systems, or those of the tills alone: `pos`.")
    ] = "all",
    rate: Annotated[int, typer.Option(min=0, help="Invoices to publish a second; 0 is unlimited.")] = 0,
) -> None:
    """Run the whole platform on real purchases, check all of it, stop it. Example: storekeeper demo --poison 1000."""
    from deploy.demo.run import run_demo  # noqa: PLC0415

    settings = OwnPlatformSettings.load()
    if not run_demo(settings, purchases=purchases, poison=poison, report_path=report, apps=apps, rate=rate).is_green:
        raise typer.Exit(1)


def main() -> NoReturn:
    """Runs the command line and exits."""
    for number in _INTERRUPTS:
        signal.signal(number, _interrupt)
    try:
        app(standalone_mode=True)
    except SystemExit as stop:
        if stop.code in {128 + number for number in _INTERRUPTS}:
            _fail("Interrupted; what this command had started is stopped.", stop.code)
        raise
    except pydantic.ValidationError as error:
        _fail(explained(error), EXIT_CONFIGURATION)
    except StateError as error:
        refused = isinstance(error, ConfigurationError | SnapshotDamagedError)
        _fail(str(error), EXIT_CONFIGURATION if refused else 1)
    except ModuleNotFoundError as error:
        _fail(missing_package(error.name or "") or str(error), 1)
    except OSError as error:
        if not is_full(error):
            raise
        _fail(str(full_disk(PlatformSettings.load().run_dir)), 1)
    sys.exit(0)


def _interrupt(number: int, frame: FrameType | None) -> None:
    del frame
    raise SystemExit(128 + number)  # unlike KeyboardInterrupt, nobody on the way turns it into something else


def _fail(message: str, code: int) -> NoReturn:
    _errors.print(f"storekeeper: {message}", markup=False)
    sys.exit(code)
