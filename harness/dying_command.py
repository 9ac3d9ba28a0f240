"""A command that is killed by KILL right before one of its effects: `python -m harness.dying_command N COMMAND…`.

An effect is what others can see: a file is written, renamed, linked or removed, a folder made or removed; Kafka or a
Delta table gets something; the supervisor starts or stops a process. N counts from 1. A command with fewer effects
runs to its end. `Commands` runs many of them, each a fork of a process that has loaded what they need.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn, Self

_FILES = frozenset({"os.rename", "os.remove", "os.link", "os.mkdir", "os.rmdir"})
_CALLS = {
    "cimpl": frozenset({"produce", "flush", "begin_transaction", "commit_transaction", "delete_topics"}),
    "deltalake": frozenset({"restore", "compact_optimize", "vacuum", "create_write_builder", "write_to_deltalake"}),
}
"""Functions of compiled modules that have effects, by a part of the module's name."""
_WRITES = os.O_WRONLY | os.O_RDWR


class Countdown:
    """Kills this process right before its N-th effect."""

    def __init__(self, at: int) -> None:
        self._left = at
        self._last = ""
        self._repeats = 0

    def arm(self) -> None:
        """From now on effects count."""
        sys.addaudithook(self._audit)
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def count(self, effect: str) -> None:
        """An effect is about to be. Of many equal ones in a row, two count."""
        self._repeats = self._repeats + 1 if effect == self._last else 0
        self._last = effect
        if self._repeats < 2:
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def _audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event in _FILES:
            self.count(f"{event} {arguments[0]}")
        elif event == "open" and isinstance(arguments[2], int) and arguments[2] & _WRITES:
            path = str(arguments[0])
            if not path.startswith("/dev/"):
                self.count(f"open {path}")

    def _profile(self, frame: object, event: str, called: Any) -> None:
        del frame
        if event == "c_call":
            owner = f"{getattr(called, '__module__', None)} {type(getattr(called, '__self__', None)).__module__}"
            if any(part in owner and called.__name__ in names for part, names in _CALLS.items()):
                self.count(called.__name__)


def _supervisor_counts(countdown: Countdown) -> None:
    from storekeeper.ops.supervisor_rpc import SupervisorRpc  # noqa: PLC0415

    call = SupervisorRpc._call

    def counted(self: SupervisorRpc, method: str, *arguments: object) -> Any:
        if method in {"startProcess", "stopProcess"}:
            countdown.count(method)
        return call(self, method, *arguments)

    SupervisorRpc._call = counted  # type: ignore[method-assign]


def run(at: int, words: Sequence[str]) -> NoReturn:
    """Runs a command, killed right before its effect `at`; 0 never."""
    from storekeeper.cli.entry import main  # noqa: PLC0415

    sys.argv = ["storekeeper", *words]
    if at:  # to look at each call takes several times as long
        countdown = Countdown(at)
        _supervisor_counts(countdown)
        countdown.arm()
    main()


@dataclass(slots=True)
class Commands:
    """The process whose forks run commands. Use it as a context manager."""

    process: subprocess.Popen[str]

    @classmethod
    def begun(cls, *modules: str) -> Self:
        """A new one that has loaded some modules."""
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", "harness.dying_command", "--serve", *modules],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
            )
        )  # fmt: skip

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate()

    def run(
        self, words: Sequence[str], variables: Mapping[str, str], at: int, output: Path, without: Sequence[str] = ()
    ) -> int:
        """Runs a command to its end or its effect `at`; what it prints is in `output`. Returns its exit code.

        `without` names functions that do nothing, each as `<module>:<name>`.
        """
        order = {
            "words": list(words), "variables": dict(variables), "at": at, "output": str(output), "without": [*without],
        }  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{json.dumps(order)}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


def _serve(modules: Sequence[str]) -> None:
    for name in modules:
        import_module(name)
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            _obey(order)
        _, status = os.waitpid(child, 0)
        answers.write(f"{os.waitstatus_to_exitcode(status)}\n")
        answers.flush()


def _obey(order: Mapping[str, Any]) -> NoReturn:
    code = 1
    try:
        output = os.open(order["output"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.environ.update(order["variables"])  # noqa: TID251 (as if it had been started with these)
        for place in order["without"]:
            module, _, name = place.partition(":")
            setattr(import_module(module), name, lambda *_: None)
        run(order["at"], order["words"])
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    finally:
        sys.setprofile(None)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        _serve(sys.argv[2:])
    else:
        run(int(sys.argv[1]), sys.argv[2:])
