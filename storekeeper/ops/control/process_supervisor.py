"""The process supervisor of a run directory, its own or an external one; and which apps must run."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

import structlog

from storekeeper.apps.registry import DRIVERS, apps_of
from storekeeper.apps.settings import AppSettings
from storekeeper.engine.runtime.heartbeat import AppState, read_heartbeat
from storekeeper.errors import RefusedError, TablesUnreachableError
from storekeeper.generations.desired_state import Role, desired_state_of
from storekeeper.generations.journal import JournalFile
from storekeeper.generations.live import is_fixed
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.operations_settings import OperationsSettings
from storekeeper.ops.supervisor_rpc import ProcessInfo, SupervisorRpc

_log = structlog.get_logger(__name__)


class ExternalSupervisor:
    """Supervises apps that run as processes in the foreground: systemd, or containers.

    Their heartbeats say how they are. They can't be started or stopped from here.
    """

    def __init__(self, settings: OperationsSettings) -> None:
        self._settings = settings

    def names(self) -> list[str]:
        """The processes that have ever written a heartbeat here."""
        return sorted(path.stem for path in (self._settings.run_dir / "heartbeats").glob("*.json"))

    def process(self, name: str) -> ProcessInfo:
        """A process as its heartbeat has it: RUNNING until it says that it has ended, or STOPPED without any."""
        beats = [read_heartbeat(self._settings.heartbeat_file(app)) for app in apps_of(name)]
        beat = min((beat for beat in beats if beat is not None), key=lambda beat: beat.started_at_ms, default=None)
        if beat is None or beat.state is AppState.STOPPED:
            return ProcessInfo(name, "STOPPED", 0, 1, 0)
        if beat.state is AppState.FAILED:
            return ProcessInfo(name, "EXITED", 0, beat.started_at_ms, 1)
        return ProcessInfo(name, "RUNNING", beat.pid, beat.started_at_ms, 0)

    def start(self, name: str) -> bool:
        """Refuses."""
        self._refuse("started", name)

    def stop(self, name: str) -> bool:
        """Refuses."""
        self._refuse("stopped", name)

    def log_end(self, name: str) -> str:
        """Says where the log is."""
        return f"see the log of {name} in systemd or the container"

    def _refuse(self, what: str, name: str) -> NoReturn:
        msg = (
            f"{name} can't be {what} from here, as no supervisor runs in {self._settings.run_dir}: use what keeps it "
            f"alive, such as `systemctl restart storekeeper-run@{name}`, or start the platform with `storekeeper up`"
        )
        raise RefusedError(msg)


ProcessSupervisor = SupervisorRpc | ExternalSupervisor


def supervisor_of(settings: OperationsSettings) -> ProcessSupervisor:
    """The process supervisor of a run directory: its own if it has ever had one, else an external one.

    Raises:
        SupervisorUnreachableError: its file can't be read.
    """
    secret = RunLayout(settings.run_dir).supervisor_secret
    if secret.exists():
        return SupervisorRpc.from_secret(secret)
    return ExternalSupervisor(settings)


def watched_programs(known: Collection[str], settings: AppSettings) -> dict[str, tuple[str, ...]]:
    """The supervisor's programs that must run, each with the names of the heartbeats that it writes.

    Args:
        known: the supervisor's programs: those of the apps that this platform runs.
        settings: where the generations' journals are: a generation that isn't live has a process of its own. It is left
            out while its journal can't be reached, and where a setting fixes the generation.
    """
    found = {program: apps for program, apps in DRIVERS.items() if program in known}
    if is_fixed(settings):
        return found
    for app in [app for apps in found.values() for app in apps]:
        try:
            journal = JournalFile(settings.durable, app).read()
        except TablesUnreachableError as error:
            _log.warning("next_generation_unknown", app=app, error=str(error))
            continue
        if journal is not None and desired_state_of(journal, Role.NEXT) is not None:
            found[Role.NEXT.program(app)] = (Role.NEXT.program(app),)
    return found
