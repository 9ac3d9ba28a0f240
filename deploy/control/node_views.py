"""What query nodes say over HTTP while they are restarted one after the other."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2

from spark_apps.client_settings import ClientSettings

_ASK_S = 5.0


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
