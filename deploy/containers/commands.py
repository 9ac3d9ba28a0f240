"""`storekeeper container`: what `docker-compose.yaml` starts beside the processes of the platform."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer

from state.cli.output import say
from state.clock import SystemClock
from state.program import ExitCode

container_commands = typer.Typer(
    help="Prepare and run the platform in containers.", no_args_is_help=True, rich_markup_mode=None
)
healthy_commands = typer.Typer(
    help="Health checks of containers. Exit code 4: not healthy.", no_args_is_help=True, rich_markup_mode=None
)
container_commands.add_typer(healthy_commands, name="healthy")


@container_commands.command()
def prepare(
    folder: Annotated[Path, typer.Argument(help="Where docker-compose.yaml looks for it.")] = Path(".containers"),
) -> None:
    """Make secrets, certificates and folders.

    docker-compose.yaml mounts them. Existing files stay as they are.

    Example: storekeeper container prepare
    """
    from deploy.containers.prepare import prepare_containers  # noqa: PLC0415 (each command loads what it needs)

    made = prepare_containers(folder)
    for path in made:
        typer.echo(path)
    say(f"{len(made)} new files in {folder}")


@container_commands.command()
def topics() -> None:
    """Make the topics that are missing.

    Example: storekeeper container topics
    """
    from deploy.containers.begin import begin_topics  # noqa: PLC0415
    from deploy.settings import PlatformSettings  # noqa: PLC0415

    for topic in begin_topics(PlatformSettings.load()):
        typer.echo(topic)


@container_commands.command()
def database() -> None:
    """Bring Airflow's database and DAG files up to date.

    Example: storekeeper container database
    """
    from deploy.dag_export import export_dags  # noqa: PLC0415
    from deploy.layout import RunLayout  # noqa: PLC0415
    from deploy.settings import PlatformSettings  # noqa: PLC0415

    export_dags(RunLayout(PlatformSettings.load().run_dir).dags)
    code = subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=False).returncode
    raise typer.Exit(ExitCode.FAILED if code else ExitCode.DONE)


@container_commands.command()
def streams() -> None:
    """Have Airflow start the stream apps.

    It unpauses the scheduled DAGs, too.

    Example: storekeeper container streams
    """
    from deploy.containers.begin import AIRFLOW_URL, begin_streams  # noqa: PLC0415
    from deploy.settings import PlatformSettings  # noqa: PLC0415

    begin_streams(PlatformSettings.load(), AIRFLOW_URL)


@healthy_commands.command()
def url(
    address: Annotated[str, typer.Argument(metavar="URL", help="Its answer must have status 200.")],
    ca: Annotated[Path | None, typer.Option(help="PEM file of the authority to trust.")] = None,
) -> None:
    """Check that an address answers.

    Example: storekeeper container healthy url http://localhost:8080/health
    """
    from deploy.containers.healthy import answers_ok  # noqa: PLC0415

    _end(healthy=answers_ok(address, ca))


@healthy_commands.command()
def port(
    host: Annotated[str, typer.Argument(help="The host.")], number: Annotated[int, typer.Argument(help="The port.")]
) -> None:
    """Check that a port accepts connections.

    Example: storekeeper container healthy port localhost 8081
    """
    from deploy.containers.healthy import listens  # noqa: PLC0415

    _end(healthy=listens(host, number))


@healthy_commands.command()
def heartbeats(folder: Annotated[Path, typer.Argument(help="Where apps write them.")]) -> None:
    """Check that no app is stuck or has failed.

    Example: storekeeper container healthy heartbeats heartbeats
    """
    from deploy.containers.healthy import all_beat  # noqa: PLC0415

    _end(healthy=all_beat(folder, SystemClock().now_ms()))


def _end(*, healthy: bool) -> None:
    raise typer.Exit(ExitCode.DONE if healthy else ExitCode.FINDING)
