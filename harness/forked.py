"""Programs that start as forks of a process which has imported what they need: in a tenth of the processor time.

`python -m harness.forked` is that process. Its standard input is a socket. An order there is the arguments and
variables of a program as JSON, with two files: the program's log, and a pipe for its id and its exit code.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import BinaryIO

from harness import adjusted

_PRELOADED = ("storekeeper.cli.entry", "storekeeper.cli.node", "storekeeper.node.node")
_ROOT = Path(__file__).resolve().parents[1]
_ORDER_BYTES = 1 << 17


@dataclass(slots=True)
class ForkedProcess:
    """A program that was started by a `Starter`. Its methods are those of `subprocess.Popen`."""

    args: Sequence[str]
    pid: int
    _reports: BinaryIO
    returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code; None while it runs."""
        return self._looked(0)

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end.

        Raises:
            subprocess.TimeoutExpired: it runs on.
        """
        code = self._looked(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Sends it a signal, unless it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def _looked(self, timeout_s: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._reports, select.POLLIN)
            if poll.poll(None if timeout_s is None else timeout_s * 1000):
                with self._reports:
                    self.returncode = int(self._reports.readline())
        return self.returncode


@dataclass(slots=True)
class Starter:
    """The process whose forks are programs."""

    _process: subprocess.Popen[bytes]
    _orders: socket.socket

    @classmethod
    def begun(cls, constants: Mapping[str, object]) -> Starter:
        """A new one, which has other constants than the modules; see `harness.adjusted`."""
        ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, *adjusted.command(constants, "harness.forked", [])]
            process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, cwd=_ROOT)
        return cls(process, ours)

    def start(self, words: Sequence[str], variables: Mapping[str, str], log: BinaryIO) -> ForkedProcess:
        """Starts `storekeeper WORDS`, which writes to a log."""
        order = json.dumps({"words": list(words), "variables": dict(variables)}).encode()
        reports, reporter = os.pipe()
        try:
            socket.send_fds(self._orders, [order], [log.fileno(), reporter])
        finally:
            os.close(reporter)
        answers = os.fdopen(reports, "rb")
        return ForkedProcess(words, int(answers.readline()), answers)

    def end(self) -> None:
        """Ends it; the programs that it has started run on."""
        self._orders.close()
        self._process.terminate()  # a fork of this process may still have its end of the socket
        self._process.wait()


@dataclass(slots=True)
class Starters:
    """A starter for each set of constants, begun when it is first needed."""

    _begun: dict[str, Starter] = field(default_factory=dict)

    def of(self, constants: Mapping[str, object]) -> Starter:
        """The one with these constants."""
        key = json.dumps(constants, sort_keys=True)
        if key not in self._begun:
            self._begun[key] = Starter.begun(constants)
        return self._begun[key]

    @contextmanager
    def ended(self) -> Iterator[Starters]:
        """Ends them with the block."""
        try:
            yield self
        finally:
            for starter in self._begun.values():
                starter.end()
            self._begun.clear()


def _obey(orders: socket.socket) -> Sequence[str] | None:
    """Forks at each order. In the fork, returns its words; otherwise None when nobody orders any more."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for those who wait for programs
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        order, files, _, _ = socket.recv_fds(orders, _ORDER_BYTES, 2)
        if not order:
            return None
        if os.fork() == 0:
            orders.close()
            log, reporter = files
            return _begin(json.loads(order), log, reporter)
        for file in files:
            os.close(file)


def _begin(order: Mapping[str, object], log: int, reporter: int) -> Sequence[str]:
    """Forks once more. This process reports the program's end; the fork gets its files and variables, and returns."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    program = os.fork()
    if program:
        os.write(reporter, b"%d\n" % program)
        _, status = os.waitpid(program, 0)
        os.write(reporter, b"%d\n" % os.waitstatus_to_exitcode(status))
        os._exit(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for file, place in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(file, place)
    for file in (nothing, log, reporter):
        os.close(file)
    words, variables = order["words"], order["variables"]
    assert isinstance(words, list)
    assert isinstance(variables, dict)
    os.environ.clear()  # noqa: TID251 (as if it had been started with those)
    os.environ.update(variables)  # noqa: TID251
    return words


def _serve() -> None:
    for name in _PRELOADED:
        import_module(name)
    gc.collect()
    gc.freeze()
    with socket.socket(fileno=os.dup(0)) as orders:
        words = _obey(orders)
    if words is not None:
        from storekeeper.cli.entry import main  # noqa: PLC0415 (ahead of it, constants are adjusted)

        sys.argv = ["storekeeper", *words]
        main()


if __name__ == "__main__":
    _serve()
