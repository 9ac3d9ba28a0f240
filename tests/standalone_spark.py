"""Spark's standalone cluster, as processes of this machine."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from storekeeper.ops.environment import inherited_environment

PROGRAMS = Path(sys.executable).parent


def start(command: list[str], log: Path, **variables: str) -> subprocess.Popen[bytes]:
    """A process and a group of its own."""
    with log.open("ab") as output:
        return subprocess.Popen(
            ["env", *(f"{name}={value}" for name, value in variables.items()), *command],
            stdout=output, stderr=output, start_new_session=True,
        )  # fmt: skip


def spark_daemon(log: Path, name: str, *arguments: str, **variables: str) -> subprocess.Popen[bytes]:
    """A master or a worker of a standalone cluster."""
    command = [str(PROGRAMS / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments, "--webui-port", "0"]
    # The script finds Spark by asking the first python3 on the PATH, as in the image.
    path = f"{PROGRAMS}:{inherited_environment()['PATH']}"
    return start(command, log, PATH=path, SPARK_DAEMON_MEMORY="256m", SPARK_LOCAL_IP="127.0.0.1", **variables)


def end(process: subprocess.Popen[bytes]) -> None:
    """Kills a group and waits for its leader."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(30)
