"""The operator that runs a short Spark job as a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
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

if TYPE_CHECKING:
    from airflow.sdk import Context

_CONFIGURATION_ERROR_EXIT = 78
_LAST_LINES = 20
_ERROR = re.compile(r'\berror="((?:[^"\\]|\\.)*)"')
_END_S = 4  # Airflow kills a task that doesn't end within five seconds


class SparkJobOperator(BaseOperator):
    """Runs `python -m <module> <arguments>` and returns the JSON object on its last line of standard output.

    Every line that the job writes goes to the task's log. The job has a process group of its own, which ends with the
    task when somebody stops or kills it. Exit codes in `final_exit_codes` fail the task for good, others leave it to
    retries.

    Args:
        module: the module to run, of this interpreter's environment.
        arguments: its arguments. Templated.
        final_exit_codes: meaning by exit code, for those where a retry can't help.
        **kwargs: those of every operator.
    """

    template_fields: Sequence[str] = ("arguments",)
    ui_color = "#f4d9c9"

    def __init__(
        self, *, module: str, arguments: list[str], final_exit_codes: Mapping[int, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(**kwargs)
        self.module = module
        self.arguments = arguments
        self.final_exit_codes = {_CONFIGURATION_ERROR_EXIT: "a retry can't help", **(final_exit_codes or {})}
        self._process: subprocess.Popen[str] | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        """Runs the job.

        Raises:
            AirflowFailException: the job failed with a final exit code.
            AirflowException: it failed otherwise, or printed no JSON object last.
        """
        del context
        command = [sys.executable, "-m", self.module, *self.arguments]
        self.log.info("running %s", " ".join(command))
        # A task killed by KILL can't end its job: the kernel does.
        command = [sys.executable, ends_with_parent.__file__, str(os.getpid()), *command]
        with subprocess.Popen(
            command,
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
            msg = f"{self.module} ended well, but its last line of output is no JSON object"
            raise AirflowException(msg)
        return result

    def on_kill(self) -> None:
        """Ends the job and all of its children."""
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
        meaning = self.final_exit_codes.get(exit_code)
        said = _error_in(last_log[-1]) if last_log else "it logged nothing"
        if meaning is None:
            msg = f"{self.module} failed with exit code {exit_code}: {said}\nThe end of its log:\n" + "\n".join(
                last_log
            )
            return AirflowException(msg)
        reasons = (_json_object(last_output) or {}).get("reasons") or [said]
        return AirflowFailException(f"{meaning}: " + "\n".join(map(str, reasons)))


def _error_in(line: str) -> str:
    """The error of a line of `app_log`; the line itself if it has none."""
    found = _ERROR.search(line)
    return line if found is None else found.group(1).replace('\\"', '"')


def _json_object(text: str) -> dict[str, Any] | None:
    try:
        content = orjson.loads(text)
    except ValueError:
        return None
    return content if isinstance(content, dict) else None
