"""The operators' client of supervisor's XML-RPC, and the calls that only the platform itself needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

from dags.operators.errors import SupervisorUnreachableError
from dags.operators.supervisor_rpc import ENDED_STATES, SupervisorRpc
from deploy.credentials import SupervisorCredentials


@dataclass(frozen=True, slots=True)
class ProcessView:
    """A process as the supervisor reports it. `pid` is 0 without one; times are epoch seconds."""

    name: str
    state: str
    pid: int
    started_s: int
    exit_status: int
    spawn_error: str

    @property
    def is_wanted(self) -> bool:
        """Whether the supervisor runs it, or will try to by itself."""
        return self.state not in ENDED_STATES


class SupervisorClient(SupervisorRpc):
    """Talks to the supervisor of one run directory. Not thread-safe.

    Methods raise `SupervisorUnreachableError` when it doesn't answer or refuses.
    """

    @classmethod
    def of(cls, credentials: SupervisorCredentials, timeout_s: float = 20.0) -> Self:
        """The client for these credentials; `timeout_s` bounds each call."""
        return cls(credentials.url, credentials.username, credentials.password, timeout_s=timeout_s)

    def is_up(self) -> bool:
        """Whether our supervisor answers. False too when another one, with another password, has the port."""
        try:
            return bool(self._call("getState")["statename"] == "RUNNING")
        except SupervisorUnreachableError:
            return False

    def pid(self) -> int:
        """The process id of the supervisor itself."""
        return int(self._call("getPID"))

    def processes(self) -> list[ProcessView]:
        """Every process, in alphabetical order."""
        return [
            ProcessView(
                name=fields["name"],
                state=fields["statename"],
                pid=fields["pid"],
                started_s=fields["start"],
                exit_status=fields["exitstatus"],
                spawn_error=fields["spawnerr"],
            )
            for fields in self._call("getAllProcessInfo")
        ]

    def shutdown(self) -> None:
        """Makes the supervisor stop every process and end. Returns at once."""
        self._call("shutdown")
