"""Generated passwords: made once for a run directory, kept in files that only their owner may read."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass

from dags.operators.supervisor_rpc import SupervisorRpc
from deploy.errors import NotRunningError
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from state.private_files import read_secret
from state.whole_files import write_whole

AIRFLOW_USER = "admin"


@dataclass(frozen=True, slots=True, repr=False)
class SupervisorCredentials:
    """Address and password of a run directory's supervisor. Has no repr, so that no log shows the password."""

    url: str
    username: str
    password: str

    def client(self, timeout_s: float = 20.0) -> SupervisorRpc:
        """A client of that supervisor; `timeout_s` bounds each call."""
        return SupervisorRpc(self.url, self.username, self.password, timeout_s=timeout_s)


def read_supervisor_credentials(layout: RunLayout) -> SupervisorCredentials:
    """The credentials that `up` generated.

    Raises:
        NotRunningError: there are none: nothing was ever started in this run directory.
    """
    try:
        fields = json.loads(read_secret(layout.supervisor_secret, "the supervisor's password"))
        return SupervisorCredentials(fields["url"], fields["username"], fields["password"])
    except (OSError, ValueError, KeyError) as error:
        msg = f"No platform was started in {layout.root}: start one with `storekeeper up`."
        raise NotRunningError(msg) from error


def make_supervisor_credentials(layout: RunLayout, settings: PlatformSettings) -> SupervisorCredentials:
    """The run directory's credentials, generated on first use; the address follows the settings."""
    url = f"http://127.0.0.1:{settings.supervisor_port}"
    try:
        known = read_supervisor_credentials(layout)
    except NotRunningError:
        known = SupervisorCredentials(url, "storekeeper", secrets.token_urlsafe(24))
    fields = {"url": url, "username": known.username, "password": known.password}
    write_whole(layout.supervisor_secret, f"{json.dumps(fields)}\n".encode(), private=True)
    return SupervisorCredentials(**fields)


def read_airflow_password(layout: RunLayout) -> str | None:
    """The password of Airflow's admin, or None before it was generated."""
    try:
        return str(json.loads(read_secret(layout.airflow_passwords, "Airflow's passwords"))[AIRFLOW_USER])
    except (OSError, ValueError, KeyError):
        return None


def make_airflow_password(layout: RunLayout) -> tuple[str, bool]:
    """The password of Airflow's admin and whether it was generated just now (and is to be shown, once)."""
    known = read_airflow_password(layout)
    if known is not None:
        return known, False
    password = secrets.token_urlsafe(12)
    write_whole(layout.airflow_passwords, f"{json.dumps({AIRFLOW_USER: password})}\n".encode(), private=True)
    return password, True
