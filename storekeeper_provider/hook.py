"""The hook: one method for each route of the control API."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from airflow.sdk import BaseHook
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from storekeeper_provider import CONNECTION

_TIMEOUT_S = 30.0
_DEFAULT_PORT = 18091


class NoAnswerError(AirflowException):
    """The control API doesn't answer, or not now. The same call may succeed later."""


class StorekeeperHook(BaseHook):
    """Talks to the control API of a platform. Thread-safe.

    The connection's `host` is its address, with or without scheme and port. The token is the password, or in the file
    that the extra field `token_file` names. `ca_file` is a PEM file of the authority that signed its certificate.

    Methods raise `NoAnswerError` if it doesn't answer or is busy, `AirflowFailException` if it refuses the request, and
    `AirflowException` if the connection can't be used.
    """

    conn_name_attr = "storekeeper_conn_id"
    default_conn_name = CONNECTION
    conn_type = "storekeeper"
    hook_name = "Storekeeper"

    def __init__(self, storekeeper_conn_id: str = CONNECTION) -> None:
        super().__init__()
        self.storekeeper_conn_id = storekeeper_conn_id
        self._connection: Any = None

    def get_conn(self) -> httpx.Client:
        """A new HTTP client with the connection's address and token. Close it after use."""
        if self._connection is None:
            self._connection = self.get_connection(self.storekeeper_conn_id)
        return _client(self._connection)

    @classmethod
    async def connected(cls, storekeeper_conn_id: str) -> StorekeeperHook:
        """A hook whose connection was looked up without blocking the event loop, as a trigger needs it."""
        hook = cls(storekeeper_conn_id)
        hook._connection = await cls.aget_connection(storekeeper_conn_id)
        return hook

    def connection_extra(self, name: str) -> str:
        """A field of the connection's extra; empty if it isn't there."""
        return str(self.get_connection(self.storekeeper_conn_id).extra_dejson.get(name) or "")

    def test_connection(self) -> tuple[bool, str]:
        """Whether the control API answers and knows the token, in words, for Airflow's page of connections."""
        try:
            self.status()
        except AirflowException as error:
            return False, str(error)
        return True, "The control API answers and knows the token."

    def status(self) -> dict[str, Any]:
        """Every process of the platform and its health."""
        return self._ask("GET", "/status")

    def programs(self) -> dict[str, list[str]]:
        """The processes of apps that must run there, and the apps of each."""
        return self._ask("GET", "/programs")

    def stores(self) -> list[dict[str, Any]]:
        """The stores that there are snapshots of: `store`, `app`, `has_run`."""
        return self._ask("GET", "/stores")

    def overview(self) -> dict[str, Any]:
        """The platform's state, also as tables of words: what the page *Stores* shows."""
        return self._ask("GET", "/overview")

    def topology(self, app: str) -> dict[str, str]:
        """The topology of an app: `svg`, `text` and `mermaid`."""
        return self._ask("GET", f"/topology/{_segment(app)}")

    def data_docs(self, table: str, file: str) -> bytes:
        """A page or style sheet of the Data Docs of a table."""
        return self._answer("GET", f"/data-docs/{_segment(table)}", params={"file": file}).content

    def generations(self, app: str) -> dict[str, Any]:
        """The generations of an app, and how far a change between them is."""
        return self._ask("GET", f"/generations/{_segment(app)}")

    def table(self, name: str) -> dict[str, Any]:
        """A table that the quality gate publishes: `waiting` has the staged versions that nobody has checked."""
        return self._ask("GET", f"/tables/{_segment(name)}")

    def start_job(self, name: str, arguments: Sequence[str]) -> dict[str, Any]:
        """Starts a job of that id, or finds it if it runs."""
        return self._ask("PUT", f"/jobs/{name}", json={"arguments": list(arguments)})

    def job(self, name: str, log_from: int | None = None) -> dict[str, Any]:
        """A job: its state, its exit code, its result, and a part of its log. It is lost if nobody knows it there."""
        params = {} if log_from is None else {"log_from": log_from}
        answer = self._answer("GET", f"/jobs/{name}", fine=(httpx.codes.NOT_FOUND,), params=params)
        return answer.json() if answer.is_success else {"id": name, "state": "lost", "log": "", "log_position": 0}

    def cancel_job(self, name: str, reason: str = "") -> dict[str, Any]:
        """Begins to end a job. Safe to repeat."""
        return self._ask("POST", f"/jobs/{name}/cancel", params={"reason": reason})

    def _ask(self, method: str, path: str, **more: Any) -> Any:
        return self._answer(method, path, **more).json()

    def _answer(self, method: str, path: str, *, fine: Sequence[int] = (), **more: Any) -> httpx.Response:
        with self.get_conn() as client:
            address = client.base_url
            try:
                answer = client.request(method, path, **more)
            except httpx.HTTPError as error:
                msg = f"the control API at {address} doesn't answer ({type(error).__name__}): check that it runs"
                raise NoAnswerError(msg) from error
        if answer.is_success or answer.status_code in fine:
            return answer
        msg = f"the control API at {address} refuses {method} {path} ({answer.status_code}): {_detail(answer)}"
        if answer.status_code >= httpx.codes.INTERNAL_SERVER_ERROR:
            raise NoAnswerError(msg)
        raise AirflowFailException(msg)


def _segment(name: str) -> str:
    """A name as one segment of a path, whatever is in it."""
    return "%2E" * len(name) if name in {".", ".."} else quote(name, safe="")


def _client(connection: Any) -> httpx.Client:
    extra = connection.extra_dejson
    token = connection.password or _token(extra.get("token_file"))
    address = _address(connection)
    try:
        return httpx.Client(
            base_url=address,
            headers={"Authorization": f"Bearer {token}"},
            timeout=_TIMEOUT_S,
            trust_env=False,
            verify=_trust(address, extra.get("ca_file")),
        )
    except (OSError, ValueError, httpx.InvalidURL) as error:
        raise AirflowException(f"connection {connection.conn_id} can't be used: {error}") from error


def _trust(address: str, ca_file: str | None) -> ssl.SSLContext:
    if address.startswith("http:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody; loading all authorities takes a while
    return ssl.create_default_context(cafile=ca_file or None)


def _address(connection: Any) -> str:
    host = connection.host or "127.0.0.1"
    if "://" not in host:
        host = f"{connection.schema or 'http'}://{host}:{connection.port or _DEFAULT_PORT}"
    return str(host)


def _token(path: str | None) -> str:
    if not path:
        raise AirflowException("the connection has no token: give it a password, or `token_file` in its extra")
    try:
        return Path(path).read_text("utf-8").strip()
    except OSError as error:
        msg = f"the token can't be read ({error.strerror}: {path}): start the control API, or correct `token_file`"
        raise AirflowException(msg) from error


def _detail(answer: httpx.Response) -> str:
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:200]
