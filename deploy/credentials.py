"""Generated passwords: made once for a run directory, kept in files that only their owner may read."""

from __future__ import annotations

import json
import secrets

from deploy.errors import SupervisorUnreachableError
from deploy.layout import RunLayout
from deploy.settings import PlatformSettings
from deploy.supervisor_rpc import SupervisorCredentials
from state.private_files import read_secret
from state.whole_files import write_whole

AIRFLOW_USER = "admin"


def make_supervisor_credentials(layout: RunLayout, settings: PlatformSettings) -> SupervisorCredentials:
    """The run directory's credentials, generated on first use; the address follows the settings."""
    url = f"http://127.0.0.1:{settings.supervisor_port}"
    try:
        known = SupervisorCredentials.read(layout.supervisor_secret)
    except SupervisorUnreachableError:
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
