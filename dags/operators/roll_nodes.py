"""The sensor that restarts query nodes one after the other."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import httpx2
from airflow.sdk import BaseSensorOperator
from airflow.sdk.exceptions import AirflowFailException

from dags.operators.errors import AppFailedError
from dags.operators.node_roll import NodeRoll
from dags.operators.settings import OperationsSettings
from dags.operators.supervisor_rpc import SupervisorRpc

if TYPE_CHECKING:
    from airflow.sdk import Context

    from spark_apps.client_settings import ClientSettings

_AT_ONCE_S = 20
_PAUSE_S = 0.5
_ASK_S = 5.0


class RollNodesSensor(BaseSensorOperator):
    """Succeeds once every node was restarted in this run and is warm; restarts one as soon as the others can answer.

    A node that kept its rows is warm within seconds: the sensor waits for it. A node that restores is checked again
    later; until then the sensor holds no worker.

    Args:
        **kwargs: those of every sensor.
    """

    ui_color = "#d7ecd9"

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(mode="reschedule", **kwargs)

    def poke(self, context: Context) -> bool:
        """Goes as far as it can without a long wait.

        Raises:
            AirflowFailException: a node doesn't come back; the others were left alone.
        """
        settings = OperationsSettings()  # type: ignore[call-arg]
        addresses = settings.node_addresses
        supervisor = SupervisorRpc.from_secret(settings.supervisor_secret)
        began = context["dag_run"].start_date
        with node_client(settings) as http:
            roll = NodeRoll(
                tuple(addresses),
                supervisor,
                HttpViews(addresses, http),
                0 if began is None else int(began.timestamp()),
            )
            until_s = time.monotonic() + _AT_ONCE_S
            try:
                while (waits := roll.step()) is not None and time.monotonic() < until_s:
                    threading.Event().wait(_PAUSE_S)
            except AppFailedError as error:
                raise AirflowFailException(str(error)) from error
        self.log.info("%s", waits or f"restarted and warm: {', '.join(addresses)}")
        return waits is None


def node_client(settings: ClientSettings) -> httpx2.Client:
    """The HTTP client for nodes, with the settings' credentials and CA.

    Raises:
        ConfigurationError: a file that the settings name can't be used.
    """
    shown = settings.credentials
    return httpx2.Client(timeout=_ASK_S, trust_env=False, headers=shown.headers(), verify=shown.ssl_context())


class HttpViews:
    """Asks nodes over HTTP. A node that refuses counts as one that doesn't answer."""

    def __init__(self, addresses: Mapping[str, str], http: httpx2.Client) -> None:
        self._addresses = addresses
        self._http = http

    def is_warm(self, node: str) -> bool:
        """Whether the node of that name is ready."""
        return self._ask(f"{self._addresses[node]}/readyz") is not None

    def cluster(self) -> Mapping[str, Any] | None:
        """The `/state/cluster` answer of the first node that answers; None if none does."""
        for address in self._addresses.values():
            answer = self._ask(f"{address}/state/cluster")
            if answer is not None:
                found: Mapping[str, Any] = answer.json()
                return found
        return None

    def _ask(self, url: str) -> httpx2.Response | None:
        try:
            return self._http.get(url).raise_for_status()
        except httpx2.HTTPError:
            return None
