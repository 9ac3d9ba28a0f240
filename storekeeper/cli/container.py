"""`storekeeper container`: what `docker-compose.yaml` starts beside the processes of the platform."""

from __future__ import annotations

import socket
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Annotated

import typer

from storekeeper.cli.output import command_group, say
from storekeeper.clock import SystemClock
from storekeeper.program import ExitCode

_TIMEOUT_S = 4.0

container_commands = command_group("Prepare and run the platform in containers.")
healthy_commands = command_group("Health checks of containers. Exit code 4: not healthy.")
container_commands.add_typer(healthy_commands, name="healthy")


@container_commands.command()
def prepare(
    folder: Annotated[Path, typer.Argument(help="Where docker-compose.yaml looks for it.")] = Path(".containers"),
) -> None:
    """Make secrets, certificates and folders.

    docker-compose.yaml mounts them. Existing files stay as they are.

    Example: storekeeper container prepare
    """
    from storekeeper.ops.containers.prepare import prepare_containers  # noqa: PLC0415 (each command loads what it needs)

    prepared = prepare_containers(folder)
    for path in prepared:
        typer.echo(path)
    say(f"{len(prepared)} new files in {folder}")


@container_commands.command()
def database() -> None:
    """Bring Airflow's database and DAG files up to date.

    Example: storekeeper container database
    """
    from storekeeper.ops.dag_export import export_dags  # noqa: PLC0415
    from storekeeper.ops.layout import RunLayout  # noqa: PLC0415
    from storekeeper.ops.settings import PlatformSettings  # noqa: PLC0415

    export_dags(RunLayout(PlatformSettings.load().run_dir).dags)
    code = subprocess.run([sys.executable, "-m", "airflow", "db", "migrate"], check=False).returncode
    raise typer.Exit(ExitCode.FAILED if code else ExitCode.DONE)


@healthy_commands.command()
def url(
    address: Annotated[str, typer.Argument(metavar="URL", help="Its answer must have status 200.")],
    ca: Annotated[Path | None, typer.Option(help="PEM file of the authority to trust.")] = None,
) -> None:
    """Check that an address answers.

    Example: storekeeper container healthy url http://localhost:8080/health
    """
    _end(healthy=answers_ok(address, ca))


@healthy_commands.command()
def port(
    host: Annotated[str, typer.Argument(help="The host.")], number: Annotated[int, typer.Argument(help="The port.")]
) -> None:
    """Check that a port accepts connections.

    Example: storekeeper container healthy port localhost 8081
    """
    _end(healthy=listens(host, number))


@healthy_commands.command()
def heartbeats(folder: Annotated[Path, typer.Argument(help="Where apps write them.")]) -> None:
    """Check that no app is stuck or has failed.

    Example: storekeeper container healthy heartbeats heartbeats
    """
    _end(healthy=all_beat(folder, SystemClock().now_ms()))


def _end(*, healthy: bool) -> None:
    raise typer.Exit(ExitCode.DONE if healthy else ExitCode.FINDING)


def answers_ok(url: str, ca: Path | None = None) -> bool:
    """Whether a GET of `url` gives status 200; `ca` is the PEM file of the authority to trust, None the system's."""
    context = ssl.create_default_context(cafile=ca) if url.startswith("https:") else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def listens(host: str, port: int) -> bool:
    """Whether something takes connections there."""
    try:
        with socket.create_connection((host, port), _TIMEOUT_S):
            return True
    except OSError:
        return False


def all_beat(folder: Path, now_ms: int) -> bool:
    """Whether every heartbeat in `folder` is fresh and not FAILED. Those of stopped apps don't count."""
    from storekeeper.engine.runtime.app_health import is_silent  # noqa: PLC0415
    from storekeeper.engine.runtime.heartbeat import AppState, read_heartbeat  # noqa: PLC0415

    beats = [read_heartbeat(path) for path in sorted(folder.glob("*.json"))]
    return not any(beat.state is AppState.FAILED or is_silent(beat, now_ms) for beat in beats if beat is not None)
