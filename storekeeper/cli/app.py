"""`storekeeper app`: start, stop and change the processes of apps. Repeating a command is harmless.

`storekeeper upgrade-nodes` restarts the query nodes.
"""

from __future__ import annotations

import threading
import time
from typing import Annotated

import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.registry import app_named, apps_of
from storekeeper.apps.settings import AppSettings, ClientSettings
from storekeeper.cli.output import AnswerOption, AnswerOutput, command_group, say, write_answer
from storekeeper.clock import SystemClock
from storekeeper.ops.control.app_actions import change_app, supervisor_of
from storekeeper.ops.control.node_roll import NodeRoll, NodeViews, node_client
from storekeeper.ops.settings import PlatformSettings

app_commands = command_group("Start, stop and change the processes of apps.")
_PAUSE_S = 0.5
_Name = Annotated[str, typer.Argument(help="The app's name, or shared_driver for the apps that share one.")]


@app_commands.command()
def start(name: _Name, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Start an app unless it runs, and wait until it does.

    One that is stuck is restarted, and one that runs is left alone.

    Example: storekeeper app start pos
    """
    _acted(name, "start", output)


@app_commands.command()
def stop(name: _Name, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Drain an app: it finishes its batch, then ends.

    It stays stopped until somebody starts it, also over `down` and `up`.

    Example: storekeeper app stop pos
    """
    _acted(name, "stop", output)


@app_commands.command()
def restart(name: _Name, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Drain an app, then start it.

    Example: storekeeper app restart pos
    """
    _acted(name, "restart", output)


@app_commands.command()
def scale(
    name: _Name,
    cores: Annotated[int | None, typer.Option(min=0, help="Spark's cores.")] = None,
    memory_mb: Annotated[int | None, typer.Option(min=0, help="Heap of the driver, or of each executor.")] = None,
    max_offsets_per_trigger: Annotated[int | None, typer.Option(min=0, help="Most input records in a batch.")] = None,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Set the size of an app, and restart it.

    0 unsets a value: the platform's setting then applies again. If the app doesn't come up, its old size is restored.

    Example: storekeeper app scale pos --cores 4
    """
    _acted(name, "scale", output, cores=cores, memory_mb=memory_mb, max_offsets_per_trigger=max_offsets_per_trigger)


@app_commands.command()
def upgrade(
    name: _Name,
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only check whether the installed code can run it.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Check the installed code, drain the app, start it.

    The check runs while the app does. It succeeds when the app reads on from where it was drained.

    Example: storekeeper app upgrade pos
    """
    if dry_run:
        begin_job()
        write_answer({"app": name, "stores": check_code(name)}, output)
    else:
        _acted(name, "upgrade", output)


@app_commands.command()
def retire(
    name: Annotated[str, typer.Argument(help="The name of an app that storekeeper.toml doesn't name any more.")],
    *,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete its changelogs, checkpoints and local stores, too.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """End what a removed app has left.

    Its stores are not served any more after the next `storekeeper apply`. Only then can they be deleted: before, nodes
    would take them for lost. Its Delta tables stay.

    Example: storekeeper app retire page_views --delete
    """
    begin_job()
    from storekeeper.ops.retire import retire as end  # noqa: PLC0415

    write_answer(end(name, PlatformSettings.of_platform(), delete=delete), output)


def upgrade_nodes(
    since: Annotated[
        float | None, typer.Option(help="Leave nodes alone that were started after this time, in epoch seconds.")
    ] = None,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Restart the query nodes one after the other.

    Reads have no gap: a node is stopped only while others can answer for all of its partitions.

    Example: storekeeper upgrade-nodes
    """
    begin_job()
    settings = ClientSettings.load()
    addresses = settings.node_addresses
    with node_client(settings) as http:
        views = NodeViews(addresses, http)
        roll = NodeRoll(tuple(addresses), supervisor_of(settings), views, int(time.time() if since is None else since))
        before = None
        while (waits := roll.step()) is not None:
            if waits != before:
                say(waits)
            before = waits
            threading.Event().wait(_PAUSE_S)
    write_answer({"nodes": ",".join(addresses)}, output)


def _acted(name: str, action: str, output: AnswerOutput, **sizes: int | None) -> None:
    begin_job(streams_wait=True)
    write_answer(change_app(name, action, sizes, check=lambda: check_code(name)), output)


def check_code(name: str) -> dict[str, str]:
    """Checks that the installed code can take over, and says whether it is another one than at the last start. Returns
    what becomes of each store.

    Raises:
        StateError: it can't take over, with the reason.
    """
    from storekeeper.generations.planning.upgrade_check import check_upgrade  # noqa: PLC0415 (imports what the app runs: Spark)
    from storekeeper.generations.running_code import change_notice, changed_code  # noqa: PLC0415

    verdicts: dict[str, str] = {}
    for app in apps_of(name):
        spec = app_named(app)
        verdicts |= check_upgrade(spec, spec.settings(AppSettings.of_platform()), SystemClock())
        for changed in changed_code([spec], AppSettings.of_platform()):
            say(change_notice(changed))
    return verdicts
