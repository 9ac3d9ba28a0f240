"""Nodes on real sockets that answer, hang, reset, drip or refuse, as they are told."""

from __future__ import annotations

import json
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

Behaviour = Callable[["Connection", str], None]


class Connection:
    """One connection of a client."""

    def __init__(self, conversation: socket.socket, gone: threading.Event) -> None:
        self.socket = conversation
        self.gone = gone

    def answer(self, body: Any, status: int = 200, **headers: object) -> None:
        content = json.dumps(body).encode()
        more = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
        head = (
            f"HTTP/1.1 {status} told\r\ncontent-type: application/json\r\ncontent-length: {len(content)}\r\n{more}\r\n"
        )
        self.socket.sendall(head.encode() + content)

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()


@dataclass(slots=True)
class FakeNode:
    """A node. `behave` may be changed at any time; `asked` are the paths that came, `heads` the requests' heads."""

    behave: Behaviour
    address: str = ""
    asked: list[str] = field(default_factory=list)
    heads: list[str] = field(default_factory=list)


@contextmanager
def fake_node(behave: Behaviour) -> Iterator[FakeNode]:
    """A node that listens until the end of the block."""
    gone = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0), backlog=64)
    node = FakeNode(behave, f"http://127.0.0.1:{listening.getsockname()[1]}")
    threads = [threading.Thread(target=_accept, args=(listening, node, gone), daemon=True)]
    threads[0].start()
    try:
        yield node
    finally:
        gone.set()
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        threads[0].join()


@contextmanager
def accepts_nothing() -> Iterator[str]:
    """The address of a socket whose queue of connections is full."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        address = full.getsockname()
        fillers = [socket.socket() for _ in range(4)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(address)
        yield f"http://127.0.0.1:{address[1]}"
        for filler in fillers:
            filler.close()


def _accept(listening: socket.socket, node: FakeNode, gone: threading.Event) -> None:
    threads: list[threading.Thread] = []
    while not gone.is_set():
        try:
            conversation, _ = listening.accept()
        except OSError:
            break
        threads.append(threading.Thread(target=_converse, args=(conversation, node, gone), daemon=True))
        threads[-1].start()
    for thread in threads:
        thread.join(5)


def _converse(conversation: socket.socket, node: FakeNode, gone: threading.Event) -> None:
    conversation.settimeout(0.1)
    data = b""
    try:
        while not gone.is_set():
            try:
                got = conversation.recv(65536)
            except TimeoutError:
                continue
            if not got:
                return
            data += got
            while b"\r\n\r\n" in data:
                head, _, rest = data.partition(b"\r\n\r\n")
                lines = head.decode().split("\r\n")
                length = next((int(line[16:]) for line in lines if line.lower().startswith("content-length: ")), 0)
                if len(rest) < length:
                    break
                data = rest[length:]
                path = lines[0].split(" ")[1]
                node.asked.append(path)
                node.heads.append(head.decode())
                node.behave(Connection(conversation, gone), path)
    except OSError:
        return
    finally:
        conversation.close()


def answers(value: Any = 1, **headers: Any) -> Behaviour:
    """Answers each query for a key with a value, and the map of the cluster with 404."""

    def behave(connection: Connection, path: str) -> None:
        if path.startswith("/state/keyvalue/"):
            connection.answer({"key": "k", "value": value}, **headers)
        else:
            connection.answer({"type": "urn:storekeeper:problem:unknown-route", "detail": "no such path"}, 404)

    return behave


def refuses(status: int, kind: str, **headers: object) -> Behaviour:
    """Answers with a problem."""

    def behave(connection: Connection, path: str) -> None:
        del path
        connection.answer({"type": f"urn:storekeeper:problem:{kind}", "detail": kind}, status, **headers)

    return behave


def hangs(connection: Connection, path: str) -> None:
    """Never answers."""
    del path
    connection.gone.wait(30)


def resets(connection: Connection, path: str) -> None:
    """Breaks the connection."""
    del path
    connection.reset()


def ends_within(connection: Connection, path: str) -> None:
    """Closes in the middle of the answer."""
    del path
    connection.socket.sendall(b'HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"val')
    connection.socket.close()


def drips(connection: Connection, path: str) -> None:
    """Sends a byte now and then, so that no wait for the next byte is ever too long."""
    del path
    connection.socket.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n")
    while not connection.gone.wait(0.05):
        connection.socket.sendall(b" ")


def babbles(connection: Connection, path: str) -> None:
    """Speaks no HTTP."""
    del path
    connection.socket.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
    connection.socket.close()
