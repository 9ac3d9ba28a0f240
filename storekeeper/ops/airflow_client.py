"""A client of Airflow's REST API: the calls that `up` needs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from typing import Any, Self

import httpx2

from storekeeper.node.security.no_tls import NO_TLS
from storekeeper.ops.errors import StartError

_REPEATS = 4
_PAUSE_S = 0.5


class AirflowClient:
    """Talks to one Airflow as one user, by plain HTTP. Not thread-safe; close it or use it as a context manager."""

    def __init__(
        self,
        url: str,
        username: str,
        password: str,
        *,
        timeout_s: float = 30.0,
        transport: httpx2.BaseTransport | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """`url` is the base address without a trailing slash; `timeout_s` bounds each request.

        `transport` stands in for the network.
        """
        self._sleep = sleep
        self._http = httpx2.Client(base_url=url, timeout=timeout_s, trust_env=False, verify=NO_TLS, transport=transport)
        self._url = url
        self._login = {"username": username, "password": password}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def health(self) -> dict[str, str]:
        """Each component's health: `healthy`, `unhealthy`, or `unreachable` for all when the API doesn't answer."""
        components = ("metadatabase", "scheduler", "triggerer", "dag_processor")
        try:
            answer = self._http.get("/api/v2/monitor/health", timeout=5.0)
            answer.raise_for_status()
            fields = answer.json()
        except (httpx2.HTTPError, ValueError):
            return dict.fromkeys(components, "unreachable")
        return {name: (fields.get(name) or {}).get("status") or "unhealthy" for name in components}

    def has_dag(self, dag_id: str) -> bool:
        """Whether the DAG has been parsed."""
        return self._request("GET", f"/api/v2/dags/{dag_id}", fine=(httpx2.codes.NOT_FOUND,)) is not None

    def import_errors(self) -> list[str]:
        """The files that could not be parsed, each with the last line of its error."""
        errors = self._request("GET", "/api/v2/importErrors") or {}
        return [f"{e['filename']}: {e['stack_trace'].strip().splitlines()[-1]}" for e in errors["import_errors"]]

    def unpause(self, dag_id: str) -> None:
        """Unpauses the DAG: a new one is paused."""
        self._request("PATCH", f"/api/v2/dags/{dag_id}", {"is_paused": False})

    def make_pool(self, name: str, slots: int, description: str) -> None:
        """Makes a pool that counts deferred tasks. One that is there stays as somebody may have changed it."""
        pool = {"name": name, "slots": slots, "description": description, "include_deferred": True}
        self._request("POST", "/api/v2/pools", pool, fine=(httpx2.codes.CONFLICT,))

    def _request(self, method: str, path: str, body: object = None, *, fine: Sequence[int] = ()) -> Any:
        """The answer's JSON; None if the status is one of `fine`."""
        try:
            answer = self._send(method, path, body)
            if answer.status_code in fine:
                return None
            answer.raise_for_status()
        except httpx2.HTTPStatusError as error:
            detail = error.response.text[:200]
            msg = f"Airflow refused {method} {path} with {error.response.status_code} ({detail}): see its log."
            raise StartError(msg) from error
        except httpx2.HTTPError as error:
            msg = f"Airflow at {self._url} does not answer ({type(error).__name__}): see the log of airflow-api-server."
            raise StartError(msg) from error
        return answer.json()

    def _send(self, method: str, path: str, body: object) -> httpx2.Response:
        if "Authorization" not in self._http.headers:
            self._log_in()
        answer = self._asked(method, path, body)
        if answer.status_code == httpx2.codes.UNAUTHORIZED:
            self._log_in()  # the token has expired
            answer = self._asked(method, path, body)
        return answer

    def _asked(self, method: str, path: str, body: object) -> httpx2.Response:
        """Repeats a request if Airflow takes too long on a busy machine or finds its database locked.

        Every request here may be repeated: the second one changes nothing.
        """
        for _ in range(_REPEATS):
            with contextlib.suppress(httpx2.TimeoutException):
                answer = self._http.request(method, path, json=body)
                if not answer.is_server_error:
                    return answer
            self._sleep(_PAUSE_S)
        return self._http.request(method, path, json=body)

    def _log_in(self) -> None:
        self._http.headers.pop("Authorization", None)
        answer = self._http.post("/auth/token", json=self._login)
        answer.raise_for_status()
        self._http.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
