"""An HTTP answer as a value, with the headers that say where it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from state.query.answers.problems import Problem

SERVED_BY = b"storekeeper-served-by"
ROLE = b"storekeeper-role"
PARTITION = b"storekeeper-partition"
OFFSET = b"storekeeper-offset"
OFFSET_LAG = b"storekeeper-offset-lag"
STALENESS = b"storekeeper-staleness-ms"
POSITION = b"storekeeper-position"
COMPLETE = b"storekeeper-complete"
EPOCH = b"storekeeper-epoch"
NEXT_CURSOR = b"storekeeper-next-cursor"

JSON = (b"content-type", b"application/json")
Send = Any


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body."""

    status: int
    headers: Sequence[tuple[bytes, bytes]]
    body: bytes

    @classmethod
    def problem(cls, problem: Problem, *more: tuple[bytes, bytes]) -> Answer:
        """An error answer."""
        return cls(problem.status, [*problem.headers(), *more], problem.body())

    async def send(self, send: Send) -> None:
        """Sends it by ASGI."""
        headers = [*self.headers, (b"content-length", b"%d" % len(self.body))]
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": self.body})
