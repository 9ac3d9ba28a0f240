"""Starting a platform, and what of one that runs is not up. One part's failure leaves the others alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import MappingProxyType

from storekeeper.apps.registry import APPS, DRIVERS
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.engine.runtime.topics import Topics
from storekeeper.errors import ConfigurationError
from storekeeper.generations.aliases import publish_lost_aliases
from storekeeper.kafka.clients import answers
from storekeeper.kafka.properties import read_properties
from storekeeper.ops.airflow_client import AirflowClient
from storekeeper.ops.airflow_home import AIRFLOW_USER, make_airflow_password, prepare_airflow, prepare_database
from storekeeper.ops.broker import prepare_broker
from storekeeper.ops.effective import effective, write_started_with
from storekeeper.ops.environment import Instance, app_settings
from storekeeper.ops.errors import StartError
from storekeeper.ops.kafka.check import check_clock, check_kafka
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.lost_topics import Losses, check_not_empty, known_topics, lost_topics, refuse
from storekeeper.ops.machine import check_not_full, check_ports
from storekeeper.ops.operations import undisturbed
from storekeeper.ops.overview.collect import collect_status
from storekeeper.ops.overview.model import Overview, Process
from storekeeper.ops.overview.processes import LOST
from storekeeper.ops.programs import AIRFLOW_PROGRAMS, CONTROL, KAFKA, desired_programs, node_program, stopped_programs
from storekeeper.ops.settings import PlatformSettings
from storekeeper.ops.supervisor import end_orphans, forget_removed_apps, start_supervisor, stop_everything
from storekeeper.ops.supervisor_rpc import SupervisorRpc
from storekeeper.ops.topics import make_topics
from storekeeper.ops.waiting import eventually
from storekeeper.private_files import mend_modes
from storekeeper.program import NO_RESTART

DAGS = (
    *("stream_apps", "snapshot_stores", "check_tables"),
    *("verify_stores", "check_stores", "maintain_tables", "cleanup_stores", "undo_cleanup", "erase_keys"),
    *("migrate_state", "rollback_state", "release_quarantined", "upgrade_nodes"),
)
"""The DAGs that `up` unpauses: those with a schedule, and those that people run on demand."""

_JOBS_AT_ONCE = 2
"""At first: a person may change the pool in Airflow."""
_POLL_S = 0.5
NOTHING_HELD: Mapping[str, str] = MappingProxyType({})

Report = Callable[[str], None]
"""Takes one short sentence for each step that begins."""


@dataclass(frozen=True, slots=True)
class Trouble:
    """A process that doesn't work, and why, in a sentence."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How `up` ended. `password` is that of Airflow's admin if it was generated just now, to be shown once. `troubles`
    are what doesn't work: all else does.
    """

    supervisor: SupervisorRpc
    password: str | None = None
    troubles: tuple[Trouble, ...] = ()


def start(instance: Instance, report: Report, *, accept_loss: bool, foreground: bool) -> Outcome:
    """Starts a platform that doesn't run. The caller holds the run directory's lock. Arguments are those of `up`.

    Raises:
        PlatformError: nothing can work, with one sentence about what to do. What this call started is stopped again.
    """
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


def bring_up(
    instance: Instance,
    client: SupervisorRpc,
    report: Report,
    *,
    accept_loss: bool = False,
    held: Mapping[str, str] = NOTHING_HELD,
) -> tuple[Trouble, ...]:
    """Starts what should run and doesn't, and waits until each process works, or is known not to.

    Args:
        instance: the platform.
        client: its supervisor.
        report: called with each step.
        accept_loss: whether topics are made anew that apps began with and that Kafka doesn't have any more.
        held: processes that are not started, each with what to say of it; nothing if it is empty.

    Raises:
        PlatformError: nothing can work, as there is no broker or no room on the disk, or all of Kafka's data is lost.
    """
    settings = instance.settings
    client.start(CONTROL)  # healed, if need be: it starts with the supervisor
    with ThreadPoolExecutor(max_workers=1) as background:
        database = None
        if settings.embeds_airflow:
            database = background.submit(prepare_database, instance.layout, instance.environment)
        if settings.starts_broker:
            if client.start(KAFKA):
                report(f"starting Kafka at {settings.kafka_bootstrap}")
            _await_broker(instance, client)
        losses = Losses({}, 0) if accept_loss else losses_of(settings)
        made = make_topics(settings, APPS.values(), without=losses.topics)
        report(f"topics are there ({len(made)} new)")
        if stores := publish_lost_aliases(APPS.values(), app_settings(settings)):
            report(f"published the aliases of {', '.join(stores)} again: Kafka had lost them")
        apps = desired_programs(client.names(), app_settings(settings), DRIVERS)
        without_topics = {
            program: losses.of(app) for program, run in apps.items() for app in run if app in losses.by_app
        }
        if stopped := sorted(apps.keys() & stopped_programs(instance.layout)):
            report(f"not started, as somebody has stopped them: {', '.join(stopped)} (`storekeeper app start`)")
            apps = {program: run for program, run in apps.items() if program not in stopped}
        report("starting nodes and apps")
        for program in (*map(node_program, settings.node_names), *apps):
            if program not in {*without_topics, *held}:
                client.start(program)
        troubles = {**without_topics, **held}
        if database is not None:
            troubles |= _airflow_started(client, database, settings.airflow_url, report)
    report("waiting until every app and node works")
    troubles |= _await_health(instance, client, without=troubles)
    if settings.embeds_airflow and not troubles.keys() & {*AIRFLOW_PROGRAMS}:
        troubles |= _dags_unpaused(instance)
    return tuple(Trouble(name, why) for name, why in troubles.items() if why)


def losses_of(settings: PlatformSettings) -> Losses:
    """The topics that apps began with and that are lost.

    Raises:
        LostTopicsError: all of them are.
        BrokerUnavailableError: the broker doesn't answer within `start_timeout_s`.
    """
    until_s = time.monotonic() + settings.start_timeout_s
    apps = APPS.values()
    known = known_topics(apps, app_settings(settings))
    while True:
        try:
            losses = lost_topics(known, Topics(settings.kafka))
            break
        except BrokerUnavailableError:
            # A broker that has just started answers before it has elected leaders.
            if time.monotonic() >= until_s:
                raise
            time.sleep(_POLL_S)
    if losses.are_total:
        refuse(f"{settings.kafka} has none of the topics that the apps of {settings.run_dir} began with", losses.topics)
    return losses


def _await_broker(instance: Instance, client: SupervisorRpc) -> None:
    settings, log = instance.settings, instance.layout.log(KAFKA)

    def decided() -> bool:
        check_not_full(instance.layout.root)
        return answers(settings.kafka, timeout_s=1.0) or KAFKA in _given_up(client)

    reached = eventually(decided, settings.start_timeout_s, poll_s=0.3)
    if KAFKA in _given_up(client):
        raise StartError(f"{KAFKA} gave up: see {log}.")
    if not reached:
        raise StartError(f"{KAFKA} did not answer within {_limit(instance)}: see {log}.")


def _airflow_started(client: SupervisorRpc, database: Future[None], url: str, report: Report) -> dict[str, str]:
    report(f"starting Airflow at {url}")
    try:
        database.result()
    except StartError as error:
        return dict.fromkeys(AIRFLOW_PROGRAMS, str(error))
    for program in AIRFLOW_PROGRAMS:
        client.start(program)
    return {}


def _await_health(instance: Instance, client: SupervisorRpc, without: Iterable[str]) -> dict[str, str]:
    """Waits until each process works, has given up, or the time is over. Returns why those that don't work don't."""
    deadline_s = time.monotonic() + instance.settings.start_timeout_s
    while True:
        check_not_full(instance.layout.root)
        # Before the status: one that gives up after it would be described as it was before, as starting.
        given_up = _given_up(client)
        ill = [process for process in _seen(instance).processes if not process.healthy and process.name not in without]
        waits = {process.name for process in ill if not process.detail.startswith(LOST)} - given_up
        late = time.monotonic() >= deadline_s
        if not waits or late:
            break
        time.sleep(_POLL_S)
    limit = _limit(instance)
    return {
        process.name: _why_ill(process, instance.layout, limit if process.name in waits else None) for process in ill
    }


def _seen(instance: Instance) -> Overview:
    return collect_status(instance.settings)


def _why_ill(process: Process, layout: RunLayout, limit: str | None) -> str:
    """Why a process doesn't work. `limit` is the time that it had; None if it has given up."""
    late = "" if limit is None else f" after {limit}"
    return f"{process.detail}{late} (its log: {layout.log(process.name)})"


def _limit(instance: Instance) -> str:
    return f"{instance.settings.start_timeout_s} s, the setting start_timeout_s"


def _given_up(client: SupervisorRpc) -> set[str]:
    """The programs that the supervisor doesn't start again by itself."""
    return {
        info.name
        for info in client.processes()
        if info.state in {"FATAL", "STOPPED"} or (info.state == "EXITED" and info.exit_status in {0, *NO_RESTART})
    }


def _dags_unpaused(instance: Instance) -> Mapping[str, str]:
    """Unpauses the DAGs of a healthy Airflow. Returns what can't be, by the process that has the log."""
    from storekeeper_provider import POOL  # noqa: PLC0415 (a platform without Airflow lacks it)

    settings = instance.settings
    password, _ = make_airflow_password(instance.layout)
    try:
        with AirflowClient(settings.airflow_url, AIRFLOW_USER, password) as airflow:
            if not eventually(lambda: all(map(airflow.has_dag, DAGS)), settings.start_timeout_s, _POLL_S):
                broken = airflow.import_errors()
                why = f"could not read its DAGs ({broken[0]})" if broken else f"has no DAGs after {_limit(instance)}"
                return {"airflow-dag-processor": f"Airflow {why}: correct that, then run `storekeeper up` again"}
            airflow.make_pool(POOL, _JOBS_AT_ONCE, "Jobs of Storekeeper: its slots are the jobs that run at once")
            for dag in DAGS:
                airflow.unpause(dag)
    except StartError as error:
        return {"airflow-api-server": str(error)}
    return {}
