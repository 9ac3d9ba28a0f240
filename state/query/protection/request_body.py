"""The body of a request: read whole, within a limit and a time, before anything is done with the request."""

from __future__ import annotations

import asyncio
from typing import Any

from state.query.answers.problems import BodyTooLargeError, BodyTooSlowError

Receive = Any


async def read_body(receive: Receive, announced: bytes | None, *, max_bytes: int, timeout_s: float) -> bytes:
    """The body's bytes. Nothing is read beyond the limit, whether or not a length was announced.

    Raises:
        BodyTooLargeError: if more was announced or arrived.
        BodyTooSlowError: if it is not there in time, or the client went away.
    """
    if announced is not None and (not announced.isdigit() or len(announced) > 18 or int(announced) > max_bytes):
        raise _too_large(max_bytes)
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                message = await receive()
                if message["type"] != "http.request":
                    raise BodyTooSlowError("the client went away before the request's body was complete")
                part: bytes = message.get("body", b"")
                size += len(part)
                if size > max_bytes:
                    raise _too_large(max_bytes)
                parts.append(part)
                if not message.get("more_body", False):
                    return b"".join(parts)
    except TimeoutError as error:
        msg = f"the request's body was not complete within {timeout_s:g} seconds"
        raise BodyTooSlowError(msg) from error


def replayed(body: bytes, receive: Receive) -> Receive:
    """A `receive` that returns the body that was read, then the messages after it: the disconnect."""
    left = [body]

    async def receive_again() -> dict[str, Any]:
        if left:
            return {"type": "http.request", "body": left.pop(), "more_body": False}
        message: dict[str, Any] = await receive()
        return message

    return receive_again


def _too_large(max_bytes: int) -> BodyTooLargeError:
    msg = f"the request's body is over the limit of {max_bytes} bytes"
    return BodyTooLargeError(msg)
