"""A typed client of supervisor's XML-RPC: state of processes, start, stop, shut down."""

from __future__ import annotations

import http.client
import urllib.parse
import xmlrpc.client
from dataclasses import dataclass
from typing import Any

from deploy.credentials import SupervisorCredentials
from deploy.errors import NotRunningError, PlatformError

ALIVE_STATES = frozenset({"STARTING", "RUNNING", "BACKOFF", "STOPPING"})
"""States in which the supervisor runs a process or will try again by itself."""

_ALREADY_STARTED = 60
_NOT_RUNNING = 70
_BAD_NAME = 10


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """What the supervisor knows about one process. `pid` is 0 unless it runs; times are epoch seconds."""

    name: str
    state: str
    pid: int
    started_s: int
    exit_status: int
    spawn_error: str


class SupervisorClient:
    """Talks to the supervisor of one run directory, with a connection per call. Thread-safe."""

    def __init__(self, credentials: SupervisorCredentials, timeout_s: float = 20.0) -> None:
        """`timeout_s` bounds each call."""
        self._address = credentials.url
        user = urllib.parse.quote(credentials.username, safe="")
        password = urllib.parse.quote(credentials.password, safe="")
        self._url = credentials.url.replace("http://", f"http://{user}:{password}@", 1) + "/RPC2"
        self._timeout_s = timeout_s

    def is_up(self) -> bool:
        """Whether our supervisor answers. False too when another one, with another password, has the port."""
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except PlatformError:
            return False

    def pid(self) -> int:
        """The process id of the supervisor itself."""
        return int(self._call("getPID"))

    def processes(self) -> list[ProcessInfo]:
        """Every process, in the order of the configuration file's groups."""
        return [_process_info(fields) for fields in self._call("getAllProcessInfo")]

    def process(self, name: str) -> ProcessInfo:
        """One process."""
        return _process_info(self._call("getProcessInfo", name))

    def start(self, name: str) -> bool:
        """Starts a process unless it runs. Returns whether it had to; doesn't wait for it."""
        return self._changes("startProcess", name, _ALREADY_STARTED)

    def stop(self, name: str) -> bool:
        """Begins to stop a process. Returns whether it ran; doesn't wait for its end."""
        return self._changes("stopProcess", name, _NOT_RUNNING)

    def shutdown(self) -> None:
        """Tells the supervisor to stop every process and end. Returns at once."""
        self._call("shutdown")

    def _changes(self, method: str, name: str, harmless_fault: int) -> bool:
        try:
            self._call(method, name, False)
        except _FaultError as error:
            if error.code == harmless_fault:
                return False
            raise
        return True

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            with xmlrpc.client.ServerProxy(self._url, transport=_TimedTransport(self._timeout_s)) as proxy:
                return getattr(proxy.supervisor, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            raise _FaultError(method, arguments, fault) from fault
        except (xmlrpc.client.ProtocolError, OSError, http.client.HTTPException) as error:
            msg = f"The supervisor at {self._address} does not answer: start the platform with `storekeeper up`."
            raise NotRunningError(msg) from error


class _FaultError(PlatformError):
    def __init__(self, method: str, arguments: tuple[object, ...], fault: xmlrpc.client.Fault) -> None:
        self.code = int(fault.faultCode)
        subject = f" of {arguments[0]}" if arguments else ""
        hint = "run `storekeeper down` and `storekeeper up`" if self.code == _BAD_NAME else "see its log"
        super().__init__(f"The supervisor refused {method}{subject} ({fault.faultString}): {hint}.")


class _TimedTransport(xmlrpc.client.Transport):
    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._timeout_s = timeout_s

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self._timeout_s
        return connection


def _process_info(fields: dict[str, Any]) -> ProcessInfo:
    return ProcessInfo(
        name=fields["name"],
        state=fields["statename"],
        pid=fields["pid"],
        started_s=fields["start"],
        exit_status=fields["exitstatus"],
        spawn_error=fields["spawnerr"],
    )
