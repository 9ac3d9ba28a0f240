"""Questions and answers as httpx2 has them: what both clients share at the rim."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypedDict

import httpx2

from state.client.answers import Reply
from state.client.credentials import Credentials
from state.client.exchange import Ask, Exchange
from state.errors import ConfigurationError, StateError

_CONNECTIONS = 256
_IDLE = 64
_IDLE_S = 30.0


@dataclass(frozen=True, slots=True)
class Failure:
    """A request without an answer. `hopeless` is the error if no later request does better."""

    reason: str
    hopeless: StateError | None = None


class HttpOptions(TypedDict):
    """What either kind of httpx2's clients is made with."""

    verify: ssl.SSLContext | bool
    trust_env: bool
    follow_redirects: bool
    limits: httpx2.Limits


def http_options(credentials: Credentials) -> HttpOptions:
    """How a client connects: as the credentials say, to whom it was told to; no proxy, no redirect.

    Raises:
        ConfigurationError: the credentials can't be read.
    """
    credentials.headers()
    return {
        "verify": credentials.ssl_context(),
        "trust_env": False,
        "follow_redirects": False,
        "limits": httpx2.Limits(
            max_connections=_CONNECTIONS, max_keepalive_connections=_IDLE, keepalive_expiry=_IDLE_S
        ),
    }


def settle(exchange: Exchange, attempt: int, outcome: Reply | Failure, now_s: float) -> None:
    """Tells an exchange how an attempt went."""
    if isinstance(outcome, Reply):
        exchange.on_reply(attempt, outcome, now_s)
    else:
        exchange.on_failure(attempt, outcome.reason, now_s, hopeless=outcome.hopeless)


def request_of(
    http: httpx2.Client | httpx2.AsyncClient, ask: Ask, body: bytes | None, headers: Mapping[str, str]
) -> httpx2.Request:
    """The request of one attempt."""
    more = {} if body is None else {"content-type": "application/json"}
    return http.build_request(
        "GET" if body is None else "POST",
        ask.address + ask.path,
        content=body,
        headers={"accept": "application/json", **headers, **more},
        timeout=ask.timeout_s,
    )


def reply_of(response: httpx2.Response, content: bytes) -> Reply:
    """The answer, read whole."""
    return Reply(response.status_code, {name.lower(): value for name, value in response.headers.items()}, content)


def failure_of(error: Exception) -> Failure:
    """Why there is none. A certificate that can't be verified won't be verified later."""
    if isinstance(error, ConfigurationError):
        return Failure(str(error), error)
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            msg = f"the node's certificate can't be verified ({cause.verify_message}): name the authority's file"
            return Failure(msg, ConfigurationError(msg))
        cause = cause.__cause__ or cause.__context__
    return Failure(f"does not answer ({type(error).__name__})")
