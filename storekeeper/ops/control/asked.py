"""Answers that need the code of apps: commands as processes. The control process loads none, so it has no old one."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import orjson

from storekeeper.ops.control.problems import CommandFailedError, NotNowError
from storekeeper.program import ERROR_PREFIX, ExitCode, storekeeper_command

_PAUSE_S = 0.1
_TIMEOUT_S = 300.0


def asked(*words: str, log: Path | None = None, pause: Callable[[float], object] = time.sleep) -> dict[str, Any]:
    """What a command answers. `words` are those behind `storekeeper`. `log` gets standard error, behind what is there.
    What `pause`, the wait between two looks, raises ends the command.

    Raises:
        NotNowError: the command says that it may succeed later.
        CommandFailedError: it fails, with its reason; or it takes longer than five minutes.
    """
    late_s = time.monotonic() + _TIMEOUT_S
    is_late = False
    with TemporaryFile() as output, TemporaryFile() if log is None else log.open("a+b") as errors:
        begin = errors.seek(0, 2)
        process = subprocess.Popen(
            storekeeper_command(*words, "--output", "json"),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            while process.poll() is None and not (is_late := time.monotonic() >= late_s):
                pause(_PAUSE_S)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)  # it may have children, such as a JVM
            process.wait()
        if process.returncode == ExitCode.DONE:
            output.seek(0)
            answer: dict[str, Any] = orjson.loads(output.read())
            return answer
        errors.seek(begin)
        lines = errors.read().decode("utf-8", "replace").splitlines()
    said = " ".join(line.removeprefix(ERROR_PREFIX) for line in lines if line.startswith(ERROR_PREFIX))
    end = f"took longer than {_TIMEOUT_S:.0f} s" if is_late else f"ended with exit code {process.returncode}"
    reason = said or f"`storekeeper {' '.join(words)}` {end}"
    raise (NotNowError if process.returncode == ExitCode.TRY_AGAIN else CommandFailedError)(reason)
