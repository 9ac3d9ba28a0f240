"""Who may use the control API. It starts programs, so it needs a token on loopback, too."""

from __future__ import annotations

import hmac
import threading
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from storekeeper.errors import ConfigurationError, InvalidArgumentError
from storekeeper.node.query.answers.answer import BodyTooLargeError, Problem, problem_of
from storekeeper.node.security.access import Authenticator, Caller, Role, UnauthenticatedError, new_token
from storekeeper.private_files import read_secret
from storekeeper.whole_files import write_whole

OWN_CALLER = "platform"
_MOST_BYTES = 1 << 20
_LIVE = "/livez"
_CALLER = "storekeeper_caller"


def own_token(path: Path) -> str:
    """The token of the run directory itself, which its Airflow uses. It is made if there is none.

    Raises:
        ConfigurationError: the file is not private, is empty, or can't be read.
    """
    try:
        token = read_secret(path, "the control API's token").decode().strip()
    except FileNotFoundError:
        write_whole(path, f"{new_token()}\n".encode(), private=True, durable=True)
        return own_token(path)
    if not token:  # `Authorization: Bearer ` would be it
        raise ConfigurationError(f"the control API's token {path} is empty: delete it for a new one")
    return token


class Callers:
    """Authenticates callers by the run directory's token, or as the nodes do. Thread-safe."""

    def __init__(self, token: str, others: Authenticator) -> None:
        """`others` is for every other token, and for callers whose certificate TLS has checked."""
        self._authorization = f"Bearer {token}".encode()
        self._others = others
        self._lock = threading.Lock()  # a token book isn't thread-safe

    def caller(self, authorization: bytes | None) -> Caller:
        """Who sends a request with this `Authorization` header.

        Raises:
            UnauthenticatedError: nobody known.
        """
        if authorization is not None and hmac.compare_digest(authorization, self._authorization):
            return Caller(OWN_CALLER, frozenset({Role.OPERATOR}))
        if self._others.open:
            raise UnauthenticatedError("a valid token is needed: send the header `Authorization: Bearer TOKEN`")
        with self._lock:
            return self._others.caller(authorization)


class Gate:
    """ASGI, in front of the control API: refuses unknown callers and long bodies before anything is read.

    `/livez` is for everybody, and so are other paths that only tell. The caller is in the scope, for `caller_of`.
    """

    def __init__(self, app: Any, callers: Callers, is_open: Collection[str] = ()) -> None:
        """`is_open` has those paths."""
        self._app = app
        self._callers = callers
        self._open = {_LIVE, *is_open}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Lets a request of a known caller through."""
        if scope["type"] != "http":
            return
        if scope["path"] not in self._open:
            headers = dict(scope["headers"])
            try:
                _check_once([name for name, _ in scope["headers"]])
                scope[_CALLER] = self._callers.caller(headers.get(b"authorization"))
                _check_length(headers)
            except (UnauthenticatedError, BodyTooLargeError, InvalidArgumentError) as error:
                await _send_problem(send, problem_of(error))
                return
        await self._app(scope, receive, send)


def caller_of(scope: Any) -> Caller:
    """The caller of a request that has passed the gate."""
    return scope[_CALLER]


def _check_once(names: Sequence[bytes]) -> None:
    """Refuses a request that says twice who it is from, where to, or how long: each reader may take another one."""
    for name in (b"authorization", b"host", b"content-length"):
        if names.count(name) > 1:
            raise InvalidArgumentError(f"the header {name.decode()} is given twice: send it once")


def _check_length(headers: dict[bytes, bytes]) -> None:
    length = headers.get(b"content-length", b"0")
    if b"transfer-encoding" in headers or not length.isdigit() or int(length) > _MOST_BYTES:
        raise BodyTooLargeError(f"a body has a Content-Length of at most {_MOST_BYTES} bytes here")


async def _send_problem(send: Any, problem: Problem) -> None:
    headers = problem.headers()
    if problem.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": problem.body()})
