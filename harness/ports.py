"""Ports for the servers of tests. Each test process has a block of its own, so that none is given what another gave.

A port is taken by its server long after it was given, by which time a bare look at what is free would be of no use.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import cache
from itertools import cycle

_FIRST, _LAST, _BLOCK = 20_000, 32_000, 400  # below the ephemeral range: no outgoing connection takes one first


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody listens on, ascending until the block begins again. Belongs to one thread."""
    ports = _block()
    return [next(port for port in ports if _bound(port, keep=False)) for _ in range(count)]


@cache
def _block() -> Iterator[int]:
    """The ports of a block that no other process has, round and round."""
    for first in range(_FIRST, _LAST, _BLOCK):
        if _bound(first, keep=True):
            return cycle(range(first + 1, first + _BLOCK))
    raise AssertionError("every block of ports belongs to a test process: end those that are left over")


_kept: list[socket.socket] = []
"""What holds this process's block: bound, and never listened on."""


def _bound(port: int, *, keep: bool) -> bool:
    candidate = socket.socket()
    try:
        candidate.bind(("127.0.0.1", port))
    except OSError:
        candidate.close()
        return False
    if keep:
        _kept.append(candidate)
    else:
        candidate.close()
    return True
