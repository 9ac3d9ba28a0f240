"""Questions and answers as httpx2 requests and responses."""

from __future__ import annotations

from collections.abc import Mapping

import httpx2

from state.client.answers import Reply
from state.client.credentials import Credentials
from state.client.exchange import Ask

_CONNECTIONS = 256
_IDLE = 64
_IDLE_S = 30.0


def http_of(credentials: Credentials, transport: httpx2.AsyncBaseTransport | None) -> httpx2.AsyncClient:
    """A client with these credentials; it uses no proxy and follows no redirects.

    Raises:
        ConfigurationError: the credentials can't be read.
    """
    credentials.headers()
    return httpx2.AsyncClient(
        transport=transport,
        verify=credentials.ssl_context(),
        trust_env=False,
        follow_redirects=False,
        limits=httpx2.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE, keepalive_expiry=_IDLE_S),
    )


def request_of(http: httpx2.AsyncClient, ask: Ask, body: bytes | None, headers: Mapping[str, str]) -> httpx2.Request:
    """The request of one attempt."""
    more = {} if body is None else {"content-type": "application/json"}
    return http.build_request(
        "GET" if body is None else "POST",
        ask.address + ask.path,
        content=body,
        headers={"accept": "application/json", **headers, **more},
        timeout=ask.timeout_s,
    )


def reply_of(response: httpx2.Response) -> Reply:
    """The answer, from a response that was read completely."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Reply(response.status_code, headers, response.content)
