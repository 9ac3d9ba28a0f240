"""A network between nodes that can be cut, one way or both, and slowed: a TCP proxy in front of each node.

The proxies run in a process of their own: they must not share Python's lock with the load that goes through them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from typing import Self

from harness.ports import free_ports


@dataclass(frozen=True, slots=True)
class Way:
    """How bytes are carried between `port` and `target`, both of 127.0.0.1.

    Attributes:
        port: where others reach the node.
        target: the node's own port.
        cut_requests: bytes towards the node are held back.
        cut_answers: the same for bytes from the node.
        delay_s: so much later bytes from the node arrive.
    """

    port: int
    target: int
    cut_requests: bool = False
    cut_answers: bool = False
    delay_s: float = 0.0


class Network:
    """Makes proxies and changes them. A context manager."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.failover.carrier"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    @property
    def pid(self) -> int:
        """The id of the process that carries."""
        assert self._process is not None
        return self._process.pid

    def proxy(self, target: int, port: int | None = None) -> Proxy:
        """A new proxy in front of a port, at a free one if none is said; it carries when this returns."""
        made = Proxy(self, Way(free_ports(1)[0] if port is None else port, target))
        made.heal()
        return made

    def set(self, way: Way) -> None:
        """Lets bytes be carried like this; returns once it is so."""
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asdict(way)).encode() + b"\n")
        self._process.stdin.flush()
        assert self._process.stdout.readline() == b"\n", "the process that carries has ended"


class Proxy:
    """What is in front of one node."""

    def __init__(self, network: Network, way: Way) -> None:
        self._network = network
        self._way = way

    @property
    def address(self) -> str:
        """The base address that goes through the proxy."""
        return f"http://127.0.0.1:{self._way.port}"

    def cut(self, *, requests: bool = False, answers: bool = False) -> None:
        """Holds bytes back, of one direction or of both."""
        self._network.set(replace(self._way, cut_requests=requests, cut_answers=answers))

    def slow_down(self, delay_s: float) -> None:
        """Lets bytes from the node arrive so much later."""
        self._network.set(replace(self._way, delay_s=delay_s))

    def heal(self) -> None:
        """Lets everything through again, at once."""
        self._network.set(self._way)
