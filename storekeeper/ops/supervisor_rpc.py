"""A client of supervisor's XML-RPC, for starting, stopping and watching processes."""

from __future__ import annotations

import http.client
import urllib.parse
import xmlrpc.client
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import orjson

from storekeeper.ops.errors import SupervisorUnreachableError
from storekeeper.ops.layout import RunLayout
from storekeeper.private_files import read_secret

ENDED_STATES = frozenset({"STOPPED", "EXITED", "FATAL", "UNKNOWN"})
"""States in which there is no process, and the supervisor won't start one by itself."""

CALL_TIMEOUT_S = 20.0
"""The supervisor answers at once; on a machine that is busy with starting it takes seconds."""
_LOG_BYTES = 2000
_ALREADY_STARTED = 60
_NOT_RUNNING = 70


@dataclass(frozen=True, slots=True)
class ProcessInfo:
    """A process as the supervisor reports it.

    Attributes:
        name: its name.
        state: the supervisor's word for its state, such as `RUNNING`.
        pid: 0 if it doesn't run.
        started_at_ms: exact to a second; 0 if it was never started since the supervisor began.
        exit_status: of its last end.
        spawn_error: why it could not be started; empty if it could.
    """

    name: str
    state: str
    pid: int
    started_at_ms: int
    exit_status: int
    spawn_error: str = ""

    @property
    def is_wanted(self) -> bool:
        """Whether the supervisor runs it, or will try to by itself."""
        return self.state not in ENDED_STATES


@dataclass(frozen=True, slots=True, repr=False)
class SupervisorCredentials:
    """Address and password of a supervisor. Has no repr, so that no log shows the password."""

    url: str
    username: str
    password: str

    @classmethod
    def read(cls, path: Path) -> Self:
        """The credentials in a file.

        Raises:
            SupervisorUnreachableError: there is no such file, or it holds something else.
        """
        try:
            secret = orjson.loads(read_secret(path, "the supervisor's password"))
            return cls(secret["url"], secret["username"], secret["password"])
        except (OSError, ValueError, KeyError, TypeError):
            msg = f"{path} holds no credentials of a supervisor: start the platform with `storekeeper up`"
            raise SupervisorUnreachableError(msg) from None


class SupervisorRpc:
    """Talks to one supervisor. Not thread-safe.

    Methods raise `SupervisorUnreachableError` when it doesn't answer or refuses.
    """

    def __init__(self, url: str, username: str, password: str, *, timeout_s: float) -> None:
        """`timeout_s` bounds each call."""
        self._address = url
        login = f"{urllib.parse.quote(username, safe='')}:{urllib.parse.quote(password, safe='')}"
        transport = _TimedTransport(timeout_s)
        self._proxy = xmlrpc.client.ServerProxy(f"{url.replace('://', f'://{login}@', 1)}/RPC2", transport=transport)

    @classmethod
    def from_secret(cls, path: Path, *, timeout_s: float = CALL_TIMEOUT_S) -> Self:
        """The client for the credentials in a file. `timeout_s` bounds each call.

        Raises:
            SupervisorUnreachableError: there is no such file, or it holds something else.
        """
        secret = SupervisorCredentials.read(path)
        return cls(secret.url, secret.username, secret.password, timeout_s=timeout_s)

    def process(self, name: str) -> ProcessInfo:
        """The state of a process."""
        return _info(self._call("getProcessInfo", name))

    def processes(self) -> list[ProcessInfo]:
        """The state of every process, in alphabetical order."""
        return [_info(fields) for fields in self._call("getAllProcessInfo")]

    def names(self) -> list[str]:
        """The names of its processes."""
        return [info.name for info in self.processes()]

    def is_up(self) -> bool:
        """Whether this supervisor answers. False too when another one, with another password, has the port."""
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except SupervisorUnreachableError:
            return False

    def pid(self) -> int:
        """The process id of the supervisor itself."""
        return int(self._call("getPID"))

    def shutdown(self) -> None:
        """Makes the supervisor stop every process and end. Returns at once."""
        self._call("shutdown")

    def start(self, name: str) -> bool:
        """Starts a process unless it runs; doesn't wait for it. Returns whether it wasn't running."""
        return self._changes("startProcess", name, _ALREADY_STARTED)

    def stop(self, name: str) -> bool:
        """Begins to stop a process; doesn't wait for its end. Returns whether it ran."""
        return self._changes("stopProcess", name, _NOT_RUNNING)

    def update(self, name: str) -> None:
        """Takes over the configuration file for one process, which doesn't run: it is added, changed or removed."""
        (added, changed, removed), *_ = self._call("reloadConfig")
        if name in {*changed, *removed}:
            self._call("removeProcessGroup", name)
        if name in {*added, *changed}:
            self._call("addProcessGroup", name)

    def log_end(self, name: str) -> str:
        """The last whole lines of what a process wrote, at most 2000 bytes: a traceback. Empty if it has no log."""
        try:
            text, _, cut = self._call("tailProcessStdoutLog", name, 0, _LOG_BYTES)
        except SupervisorUnreachableError:
            return ""
        return str(text.partition("\n")[2] if cut else text).rstrip()

    def _changes(self, method: str, name: str, harmless_fault: int) -> bool:
        try:
            self._call(method, name, False)
        except SupervisorUnreachableError as error:
            if isinstance(error.__cause__, xmlrpc.client.Fault) and error.__cause__.faultCode == harmless_fault:
                return False
            raise
        return True

    def _call(self, method: str, *arguments: object) -> Any:
        try:
            return getattr(self._proxy.supervisor, method)(*arguments)
        except xmlrpc.client.Fault as fault:
            msg = f"the supervisor refused {method}{arguments}: {fault.faultString}"
            raise SupervisorUnreachableError(msg) from fault
        except (OSError, http.client.HTTPException, xmlrpc.client.Error) as error:
            # The error's own text may quote the address with the password.
            msg = f"the supervisor at {self._address} doesn't answer ({type(error).__name__}): see `storekeeper status`"
            raise SupervisorUnreachableError(msg) from None
        finally:
            self._proxy("close")()  # calls are few, and an open connection would need an owner to close it


def running_supervisor(layout: RunLayout, timeout_s: float = CALL_TIMEOUT_S) -> SupervisorRpc | None:
    """A client of the supervisor that runs in this run directory, or None. `timeout_s` bounds each of its calls."""
    try:
        client = SupervisorRpc.from_secret(layout.supervisor_secret, timeout_s=timeout_s)
    except SupervisorUnreachableError:
        return None
    return client if client.is_up() else None


def _info(fields: dict[str, Any]) -> ProcessInfo:
    return ProcessInfo(
        name=fields["name"],
        state=fields["statename"],
        pid=fields["pid"],
        started_at_ms=fields["start"] * 1000,
        exit_status=fields["exitstatus"],
        spawn_error=fields["spawnerr"],
    )


class _TimedTransport(xmlrpc.client.Transport):
    def __init__(self, timeout_s: float) -> None:
        super().__init__()
        self._timeout_s = timeout_s

    def make_connection(self, host: Any) -> http.client.HTTPConnection:
        connection = super().make_connection(host)
        connection.timeout = self._timeout_s
        return connection
