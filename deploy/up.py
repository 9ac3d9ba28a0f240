"""Starting the platform, or healing one that has lost parts. Leaves nothing half-started behind."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

from deploy.airflow_client import AirflowClient
from deploy.airflow_home import AIRFLOW_USER, make_airflow_password, prepare_database, write_airflow_config
from deploy.broker import answers, prepare_broker
from deploy.dag_export import export_dags
from deploy.disk import check_not_full, check_room
from deploy.effective import differences, effective, other_programs, write_started_with
from deploy.environment import Instance
from deploy.errors import AlreadyRunningError, StartError
from deploy.kafka.check import check_clock, check_kafka
from deploy.layout import RunLayout
from deploy.operations import exclusive, undisturbed
from deploy.overview.collect import collect_status
from deploy.overview.model import Overview
from deploy.overview.processes import Probes
from deploy.ports import check_ports
from deploy.programs import AIRFLOW_PROGRAMS, CONTROL, KAFKA, METRICS, STOP_TIMEOUT_S, node_program
from deploy.settings import PlatformSettings
from deploy.supervisor import end_orphans, running_supervisor, start_supervisor, stop_all, stop_everything
from deploy.supervisor_rpc import SupervisorRpc
from deploy.table_readers import mend_modes
from deploy.topics import make_topics
from deploy.waiting import eventually
from deploy.wanted_apps import wanted_apps
from spark_apps.generations.desired_state import Role
from state.configuration import own_file
from state.errors import ConfigurationError
from state.kafka.properties import read_properties
from state.program import NO_RESTART
from state.run_dir import last_started, make_private

START_APPS_DAG = "stream_apps"
SCHEDULED_DAGS = (
    *("watch_streams", "snapshot_stores", "check_tables"),
    *("verify_stores", "check_stores", "watch_growth", "maintain_tables", "cleanup_stores", "undo_cleanup"),
    *("migrate_state", "rollback_state", "release_quarantined", "upgrade_nodes"),
)
"""The DAGs that `up` unpauses: those with a schedule, and those that people run on demand."""

Report = Callable[[str], None]
"""Takes one short sentence for each step that begins."""


def up(instance: Instance, report: Report) -> str | None:
    """Brings the platform up and waits until all of it works. Safe to repeat; heals what was lost.

    Returns the password of Airflow's admin if it was generated just now, to be shown once.

    Raises:
        PlatformError: with one sentence about what to do. What this call started is stopped again by then.
    """
    layout = instance.layout
    check_room(layout.root)
    make_private(layout.root)
    with exclusive(layout.lock, "up"):
        client = running_supervisor(layout)
        if client is None:
            return _from_nothing(instance, report)
        _take_over_settings(instance, report)
        export_dags(layout.dags)
        _heal(instance, client, report)
        return None


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


def _from_nothing(instance: Instance, report: Report) -> str | None:
    settings, layout = instance.settings, instance.layout
    _check_kafka(settings, report)
    layout.make()
    if end_orphans(layout.root):
        report("ended what an earlier platform had left running")
    forget_removed_apps(layout, wanted_apps(settings))
    check_ports(settings.ports)
    mend_modes(layout.root, layout.delta, settings.tables_group)
    try:
        write_started_with(layout, effective(settings))
        if settings.starts_broker:
            prepare_broker(layout, settings, instance.environment)
        write_airflow_config(layout, settings)
        export_dags(layout.dags)
        password, is_new = make_airflow_password(layout)
        client = start_supervisor(layout, settings, instance.environment, instance.programs)
        _bring_up(instance, client, password, report)
    except BaseException:
        with undisturbed():
            stop_everything(layout)
        raise
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
        for checked in check_kafka(settings, wanted_apps(settings).values()):
            report(checked)
        report(check_clock(settings))


def forget_removed_apps(layout: RunLayout, apps: Iterable[str]) -> None:
    """Removes the heartbeats of apps that the platform no longer has, so that they don't show as silent."""
    kept = {layout.heartbeat(role.program(app)) for app in apps for role in Role}
    for path in layout.root.glob("heartbeats/*.json"):
        if path not in kept:
            path.unlink()


def _bring_up(instance: Instance, client: SupervisorRpc, password: str, report: Report) -> None:
    settings = instance.settings
    if settings.starts_broker:
        report(f"starting Kafka at {settings.kafka_bootstrap}")
        client.start(KAFKA)
    client.start(CONTROL)  # healed, if need be: it starts with the supervisor
    with ThreadPoolExecutor(max_workers=1) as background:
        database = background.submit(prepare_database, instance.layout, instance.environment)
        if settings.starts_broker:
            _await(instance, client, (KAFKA,), lambda: answers(settings.kafka, timeout_s=1.0))
        made = make_topics(settings, wanted_apps(settings).values())
        report(f"topics are there ({len(made)} new)")
        database.result()
    report(f"starting Airflow at {settings.airflow_url}")
    for program in (*AIRFLOW_PROGRAMS, *map(node_program, settings.node_names), METRICS):
        client.start(program)
    with AirflowClient(settings.airflow_url, AIRFLOW_USER, password) as airflow:
        _await(instance, client, AIRFLOW_PROGRAMS, airflow.is_healthy)
        _await_dags(instance, client, airflow)
        _await(instance, client, (CONTROL,), lambda: Probes(settings).problem(CONTROL) is None)
        report("Airflow is up and brings up the Spark apps")
        airflow.run(START_APPS_DAG, None, settings.start_timeout_s)
        for dag in SCHEDULED_DAGS:
            airflow.unpause(dag)
    report("waiting until every app and node works")
    _await_health(instance, client)


def _await_dags(instance: Instance, client: SupervisorRpc, airflow: AirflowClient) -> None:
    try:
        _await(instance, client, AIRFLOW_PROGRAMS, lambda: all(map(airflow.has_dag, (START_APPS_DAG, *SCHEDULED_DAGS))))
    except StartError as error:
        broken = airflow.import_errors()
        if broken:
            msg = f"Airflow could not read its DAGs ({broken[0]}): correct that file and run the command again."
            raise StartError(msg) from error
        raise


def _await(instance: Instance, client: SupervisorRpc, programs: tuple[str, ...], condition: Callable[[], bool]) -> None:
    """Waits for a condition that depends on `programs`; fails early when one of them gave up."""

    def decided() -> bool:
        check_not_full(instance.layout.root)
        return condition() or bool(_given_up(client, programs))

    timeout_s = instance.settings.start_timeout_s
    reached = eventually(decided, timeout_s, poll_s=0.3)
    for name in _given_up(client, programs):
        msg = f"{name} gave up: see {instance.layout.log(name)}."
        raise StartError(msg)
    if not reached:
        logs = ", ".join(str(instance.layout.log(name)) for name in programs)
        msg = f"{', '.join(programs)} did not become healthy within {timeout_s} s: see {logs}."
        raise StartError(msg)


def _given_up(client: SupervisorRpc, programs: tuple[str, ...]) -> list[str]:
    return [
        info.name
        for info in client.processes()
        if info.name in programs
        and (info.state == "FATAL" or (info.state == "EXITED" and info.exit_status in NO_RESTART))
    ]


def _await_health(instance: Instance, client: SupervisorRpc) -> None:
    seen: list[Overview] = []

    def healthy() -> bool:
        seen.append(collect_status(instance.settings))
        return seen[-1].healthy

    programs = tuple(info.name for info in client.processes())
    try:
        _await(instance, client, programs, healthy)
    except StartError as error:
        ill = next((process for process in seen[-1].processes if not process.healthy), None)
        if ill is None:
            raise
        msg = f"{ill.name} did not become healthy ({ill.detail}): see {instance.layout.log(ill.name)}."
        raise StartError(msg) from error


def _heal(instance: Instance, client: SupervisorRpc, report: Report) -> None:
    if collect_status(instance.settings).healthy:
        report("everything runs already")
        return
    before = {info.name for info in client.processes() if info.is_wanted}
    password, _ = make_airflow_password(instance.layout)
    try:
        _bring_up(instance, client, password, report)
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
