"""The operator that runs a command of `storekeeper` as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import IO, TYPE_CHECKING, Any

import orjson
from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowException, AirflowFailException

from dags.operators import ends_with_parent
from state.program import NO_RETRY, ExitCode, storekeeper_command

if TYPE_CHECKING:
    from airflow.sdk import Context

_LAST_LINES = 20
_SAYS = "storekeeper: "
"""How the lines of the program begin that say why it failed."""
_END_S = 4  # Airflow kills a task that doesn't end within five seconds


class StorekeeperOperator(BaseOperator):
    """Runs `storekeeper ARGUMENTS --output json` and returns the JSON object on its last line of standard output.

    Every line that the command writes goes to the task's log. The command has a process group of its own, which ends
    with the task when somebody stops or kills it. An exit code of `NO_RETRY` fails the task for good, others leave it
    to retries.

    Args:
        arguments: the command and its arguments; empty ones are left out. Templated.
        finding: what it means if the command ends with `ExitCode.FINDING`.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("arguments",)
    ui_color = "#dfe7f5"

    def __init__(self, *, arguments: list[str], finding: str = "a check found something", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.arguments = arguments
        self.finding = finding
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Runs the command.

        Raises:
            AirflowFailException: it failed, and a retry can't help.
            AirflowException: it failed otherwise, or printed no JSON object last.
        """
        del context
        arguments = [argument for argument in self.arguments if argument]
        self.log.info("running storekeeper %s", " ".join(arguments))
        with subprocess.Popen(
            ending_with_this(*arguments, "--output", "json"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
        ) as process:
            self._process = process
            last_output, last_log = self._follow(process)
        if process.returncode != 0:
            raise self._failure(process.returncode, last_output, last_log)
        result = _json_object(last_output)
        if result is None:
            msg = f"storekeeper {arguments[0]} ended well, but its last line of output is no JSON object"
            raise AirflowException(msg)
        return result

    def on_kill(self) -> None:
        """Ends the command and all of its children."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
            try:
                self._process.wait(_END_S)
            except subprocess.TimeoutExpired:
                self.log.warning("process %s didn't end on TERM", self._process.pid)
            os.killpg(self._process.pid, signal.SIGKILL)  # its JVM, if that still lives

    def _follow(self, process: subprocess.Popen[str]) -> tuple[str, list[str]]:
        log: deque[str] = deque(maxlen=_LAST_LINES)
        reader = threading.Thread(target=self._relay, args=(process.stderr, log), daemon=True)
        reader.start()
        output: deque[str] = deque(maxlen=1)
        self._relay(process.stdout, output)
        process.wait()
        reader.join()
        return (output[-1] if output else ""), list(log)

    def _relay(self, stream: IO[str] | None, last: deque[str]) -> None:
        for line in stream or ():
            if text := line.rstrip():
                self.log.info("%s", text)
                last.append(text)

    def _failure(self, exit_code: int, last_output: str, last_log: list[str]) -> AirflowException:
        """The error, whose first line has the reason: Airflow shows that line alone."""
        if exit_code not in NO_RETRY:
            said = "; ".join(reasons_in(last_log)) or "it logged nothing"
            msg = f"it failed with exit code {exit_code}: {said}\nThe end of its log:\n" + "\n".join(last_log)
            return AirflowException(msg)
        meaning = self.finding if exit_code == ExitCode.FINDING else ExitCode(exit_code).meaning
        reasons = (_json_object(last_output) or {}).get("reasons") or reasons_in(last_log)
        return AirflowFailException(f"{meaning}: " + "\n".join(map(str, reasons)))


def ending_with_this(*arguments: str) -> list[str]:
    """The command line of `storekeeper ARGUMENTS`; the kernel ends it if this process is killed."""
    return [sys.executable, ends_with_parent.__file__, str(os.getpid()), *storekeeper_command(*arguments)]


def answer_of(*arguments: str, timeout_s: float) -> Mapping[str, Any]:
    """The JSON object that a short command prints.

    Raises:
        AirflowException: it failed; the message says why.
    """
    done = subprocess.run(
        ending_with_this(*arguments, "--output", "json"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=timeout_s,
        check=False,
    )
    answer = _json_object((done.stdout.splitlines() or [""])[-1])
    if done.returncode != 0 or answer is None:
        reasons = "\n".join(reasons_in(done.stderr.splitlines()))
        msg = f"`storekeeper {' '.join(arguments)}` ended with exit code {done.returncode}: {reasons}"
        raise AirflowException(msg)
    return answer


def reasons_in(log: Sequence[str]) -> list[str]:
    """What the program says in its log about why it failed; the last line if it says nothing."""
    return [line.removeprefix(_SAYS) for line in log if line.startswith(_SAYS)] or list(log[-1:])


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        content = orjson.loads(text)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
