"""Starting the platform, or healing one that has lost parts. What can't start doesn't stop what works."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from importlib.util import find_spec

from storekeeper.apps.registry import APPS
from storekeeper.configuration import own_file
from storekeeper.errors import ConfigurationError
from storekeeper.generations.desired_state import Role
from storekeeper.kafka.properties import read_properties
from storekeeper.ops.airflow_home import make_airflow_password, write_airflow_config
from storekeeper.ops.bring_up import Report, Trouble, bring_up, losses_of
from storekeeper.ops.broker import prepare_broker
from storekeeper.ops.dag_export import export_dags
from storekeeper.ops.disk import check_room, little_room
from storekeeper.ops.effective import differences, effective, other_programs, write_started_with
from storekeeper.ops.environment import Instance
from storekeeper.ops.errors import AlreadyRunningError
from storekeeper.ops.hanging import continue_frozen, end_hanging
from storekeeper.ops.kafka.check import check_clock, check_kafka
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.lost_topics import check_not_empty
from storekeeper.ops.modes import mend_modes
from storekeeper.ops.operations import exclusive, undisturbed
from storekeeper.ops.overview.collect import collect_status
from storekeeper.ops.ports import check_ports
from storekeeper.ops.programs import STOP_TIMEOUT_S
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import end_orphans, running_supervisor, start_supervisor, stop_all, stop_everything
from storekeeper.ops.supervisor_rpc import SupervisorRpc
from storekeeper.run_dir import last_started, make_private


@dataclass(frozen=True, slots=True)
class Outcome:
    """How `up` ended.

    Attributes:
        supervisor: a client of the supervisor.
        password: of Airflow's admin if it was generated just now, to be shown once.
        troubles: what doesn't work. All else does.
    """

    supervisor: SupervisorRpc

    password: str | None = None
    troubles: tuple[Trouble, ...] = ()


def up(instance: Instance, report: Report, *, accept_loss: bool = False, foreground: bool = False) -> Outcome:
    """Brings the platform up and waits until each part works, or is known not to. Safe to repeat; heals what was lost.

    Args:
        instance: the platform.
        report: called with each step.
        accept_loss: whether topics are made anew that apps began with and that Kafka doesn't have any more.
        foreground: whether the supervisor is to be a child of this process.

    Raises:
        AlreadyRunningError: it runs already, and the supervisor was to be a child of this process.
        PlatformError: nothing can work, with one sentence about what to do. What this call started is stopped again.
    """
    layout = instance.layout
    if running_supervisor(layout) is None:
        check_room(layout.root)
    make_private(layout.root)
    with exclusive(layout.lock, "up"):
        client = running_supervisor(layout)
        if client is None:
            return _from_nothing(instance, report, accept_loss=accept_loss, foreground=foreground)
        if foreground:
            msg = f"The platform in {layout.root} runs already: stop it with `storekeeper down`, or leave it running."
            raise AlreadyRunningError(msg)
        _take_over_settings(instance, report)
        if instance.settings.embeds_airflow:
            export_dags(layout.dags)
        return _heal(instance, client, report, accept_loss=accept_loss)


def check_no_other(settings: PlatformSettings) -> None:
    """Checks, before a new platform is made, that no other one is up that the user may have meant.

    Raises:
        AlreadyRunningError: one is, and the run directory was not named.
    """
    other = last_started()
    if settings.names_run_dir or settings.run_dir.exists() or other is None or own_file() is not None:
        return
    if running_supervisor(RunLayout(other)) is not None:
        msg = (
            f"The platform in {other} is up, and commands in this folder use it: stop it with `storekeeper down`, or "
            f"start a second one with STOREKEEPER_RUN_DIR set to {settings.run_dir}, and with ports of its own."
        )
        raise AlreadyRunningError(msg)


def _from_nothing(instance: Instance, report: Report, *, accept_loss: bool, foreground: bool) -> Outcome:
    settings, layout = instance.settings, instance.layout
    _check_kafka(settings, report)
    if not accept_loss:
        check_not_empty(settings, [*APPS.values()])
    layout.make()
    if end_orphans(layout.root):
        report("ended what an earlier platform had left running")
    forget_removed_apps(layout, APPS)
    check_ports(settings.ports)
    mend_modes(layout.root)
    try:
        write_started_with(layout, effective(settings))
        if settings.starts_broker:
            prepare_broker(layout, settings, instance.environment)
        password = _prepare_airflow(instance)
        client = start_supervisor(layout, settings, instance.environment, instance.programs, foreground=foreground)
        troubles = bring_up(instance, client, report, accept_loss=accept_loss)
    except BaseException:
        with undisturbed():
            stop_everything(layout)
        raise
    return Outcome(client, password, troubles)


def _prepare_airflow(instance: Instance) -> str | None:
    """Prepares the files of the embedded Airflow, if there is one. Returns its password if that is new.

    Raises:
        ModuleNotFoundError: it isn't installed.
    """
    layout, settings = instance.layout, instance.settings
    if not settings.embeds_airflow:
        return None
    if find_spec("airflow") is None:
        raise ModuleNotFoundError(name="airflow")
    write_airflow_config(layout, settings)
    export_dags(layout.dags)
    password, is_new = make_airflow_password(layout)
    return password if is_new else None


def _check_kafka(settings: PlatformSettings, report: Report) -> None:
    path = settings.kafka_properties
    if settings.starts_broker and path is not None and (found := read_properties(path)):
        msg = (
            f"{path} has {min(found)}, for a Kafka of your own: name its brokers in kafka_bootstrap. The platform's "
            "own broker takes lines of a schema registry only"
        )
        raise ConfigurationError(msg)
    if not settings.starts_broker:
        for checked in check_kafka(settings, APPS.values()):
            report(checked)
        report(check_clock(settings))


def forget_removed_apps(layout: RunLayout, apps: Iterable[str]) -> None:
    """Removes the heartbeats of apps that the platform no longer has, so that they don't show as silent."""
    kept = {layout.heartbeat(role.program(app)) for app in apps for role in Role}
    for path in layout.root.glob("heartbeats/*.json"):
        if path not in kept:
            path.unlink()


def _heal(instance: Instance, client: SupervisorRpc, report: Report, *, accept_loss: bool) -> Outcome:
    continue_frozen(client, report)
    seen = collect_status(instance.settings)
    # An app that has nothing to read is healthy without its topics.
    if seen.healthy and (accept_loss or not losses_of(instance.settings).topics):
        report(f"everything runs already{little_room(instance.layout.root)}")
        return Outcome(client)
    check_room(instance.layout.root)
    end_hanging(client, seen.processes, instance.settings, report)
    before = {info.name for info in client.processes() if info.is_wanted}
    try:
        return Outcome(client, troubles=bring_up(instance, client, report, accept_loss=accept_loss))
    except BaseException:
        with undisturbed():
            started = [info.name for info in client.processes() if info.name not in before]
            stop_all(client, started, STOP_TIMEOUT_S)
        raise


def _take_over_settings(instance: Instance, report: Report) -> None:
    """Has the running platform use live settings of now.

    Raises:
        AlreadyRunningError: others differ.
    """
    found = effective(instance.settings)
    changed = differences(instance.layout, found)
    refused = [str(one) for one in changed if not one.is_live] or other_programs(instance)
    if refused:
        msg = (
            f"The platform in {instance.layout.root} runs with other settings ({'; '.join(refused)}): set these as "
            "they were, or run `storekeeper down` first."
        )
        raise AlreadyRunningError(msg)
    if changed or not instance.layout.started_with.is_file():
        write_started_with(instance.layout, found)
    for one in changed:
        report(f"took over {one}")
