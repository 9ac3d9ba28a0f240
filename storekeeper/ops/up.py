"""Starting the platform, or applying the configuration to one that runs. What can't start doesn't stop what works."""

from __future__ import annotations

from dataclasses import dataclass

from storekeeper.apps.registry import APPS
from storekeeper.configuration import own_file
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.properties import read_properties
from storekeeper.ops.airflow_home import prepare_airflow
from storekeeper.ops.apply import apply
from storekeeper.ops.bring_up import Report, Trouble, bring_up
from storekeeper.ops.broker import prepare_broker
from storekeeper.ops.effective import effective, write_started_with
from storekeeper.ops.environment import Instance
from storekeeper.ops.errors import AlreadyRunningError, SupervisorUnreachableError
from storekeeper.ops.kafka.check import check_clock, check_kafka
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.lost_topics import check_not_empty
from storekeeper.ops.machine import check_ports, check_room
from storekeeper.ops.operations import exclusive, undisturbed
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import end_orphans, forget_removed_apps, start_supervisor, stop_everything
from storekeeper.ops.supervisor_rpc import SupervisorRpc, running_supervisor
from storekeeper.private_files import mend_modes
from storekeeper.run_dir import last_started, make_private


@dataclass(frozen=True, slots=True)
class Outcome:
    """How `up` ended. `password` is that of Airflow's admin if it was generated just now, to be shown once. `troubles`
    are what doesn't work: all else does.
    """

    supervisor: SupervisorRpc
    password: str | None = None
    troubles: tuple[Trouble, ...] = ()


def up(
    instance: Instance,
    report: Report,
    *,
    accept_loss: bool = False,
    foreground: bool = False,
    only_running: bool = False,
) -> Outcome:
    """Brings the platform up and waits until each part works, or is known not to. Safe to repeat.

    To one that runs it applies the configuration, and heals what was lost.

    Args:
        instance: the platform.
        report: called with each step.
        accept_loss: whether topics are made anew that apps began with and that Kafka doesn't have any more.
        foreground: whether the supervisor is to be a child of this process.
        only_running: whether a platform that is down stays down: its keeper, such as systemd, is to start it.

    Raises:
        SupervisorUnreachableError: it is down, and was to stay so.
        AlreadyRunningError: it runs already, and the supervisor was to be a child of this process.
        PlatformError: nothing can work, with one sentence about what to do. What this call started is stopped again.
    """
    layout = instance.layout
    if _running(layout, only_running=only_running) is None:
        check_room(layout.root)
    make_private(layout.root)
    with exclusive(layout.lock, "up"):
        client = _running(layout, only_running=only_running)
        if client is None:
            return _from_nothing(instance, report, accept_loss=accept_loss, foreground=foreground)
        if foreground:
            msg = f"The platform in {layout.root} runs already: stop it with `storekeeper down`, or leave it running."
            raise AlreadyRunningError(msg)
        return Outcome(client, troubles=apply(instance, client, report, accept_loss=accept_loss))


def _running(layout: RunLayout, *, only_running: bool) -> SupervisorRpc | None:
    client = running_supervisor(layout)
    if client is None and only_running:
        msg = f"The platform in {layout.root} is down: `storekeeper up` starts it with this configuration."
        raise SupervisorUnreachableError(msg)
    return client


def check_no_other(settings: PlatformSettings) -> None:
    """Checks, before a new platform is made, that no other one is up that the user may have meant.

    Raises:
        AlreadyRunningError: one is, and the run directory was not named.
    """
    other = last_started()
    if settings.names_run_dir or settings.run_dir.exists() or other is None or own_file() is not None:
        return
    if running_supervisor(RunLayout(other)) is not None:
        raise AlreadyRunningError(
            f"The platform in {other} is up, and commands in this folder use it: stop it with `storekeeper down`, or "
            f"start a second one with STOREKEEPER_RUN_DIR set to {settings.run_dir}, and with ports of its own."
        )


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
        password = prepare_airflow(layout, settings) if settings.embeds_airflow else None
        client = start_supervisor(layout, settings, instance.environment, instance.programs, foreground=foreground)
        troubles = bring_up(instance, client, report, accept_loss=accept_loss)
    except BaseException:
        with undisturbed():
            stop_everything(layout)
        raise
    return Outcome(client, password, troubles)


def _check_kafka(settings: PlatformSettings, report: Report) -> None:
    path = settings.kafka_properties
    if settings.starts_broker and path is not None and (lines := read_properties(path)):
        raise ConfigurationError(
            f"{path} has {min(lines)}, for a Kafka of your own: name its brokers in kafka_bootstrap. The platform's "
            "own broker takes lines of a schema registry only"
        )
    if not settings.starts_broker:
        for checked in check_kafka(settings, APPS.values()):
            report(checked)
        report(check_clock(settings))
