"""A Python process connects to Spark before it loads anything."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from io import BufferedRWPair
from pathlib import Path

import pytest

from spark_apps.early_worker import connect
from spark_apps.runtime.session import INTERPRETER

TIMEOUT_S = 60.0
SECRET = "a secret"
# Loading it ends when somebody writes to the pipe `gate`; then it does what every such module of PySpark does.
MODULE = """
import pathlib
pathlib.Path("gate").read_bytes()
import sys
from pyspark.worker_util import get_sock_file_to_executor
with get_sock_file_to_executor() as spark:
    spark.write(" ".join(sys.argv[1:]).encode() + b" " + spark.read(5))
    spark.flush()
"""


@pytest.fixture
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(TIMEOUT_S)
        yield server


def test_a_process_is_connected_before_its_module_is_loaded(tmp_path: Path, listening: socket.socket) -> None:
    os.mkfifo(tmp_path / "gate")
    (tmp_path / "slow_module.py").write_text(MODULE)
    with started(tmp_path, "-m", "slow_module", "one", "two", **told(listening)) as worker:
        spark, _ = listening.accept()
        with spark, spark.makefile("rwb") as stream:
            assert told_secret(stream) == SECRET
            stream.write(struct.pack("!i", 2) + b"ok")
            stream.flush()
            (tmp_path / "gate").write_bytes(b"load")
            assert struct.unpack("!i", stream.read(4)) == (worker.pid,)
            stream.write(b"three")
            stream.flush()
            assert stream.read() == b"one two three"
        assert worker.wait(TIMEOUT_S) == 0


def test_a_process_that_spark_does_not_wait_for_is_plain_python(tmp_path: Path) -> None:
    (tmp_path / "module.py").write_text("import sys; print(sys.argv[1:], sys.path[0] == sys.argv[1], sys.executable)")
    with started(tmp_path, "-m", "module", str(tmp_path)) as process:
        printed, _ = process.communicate(timeout=TIMEOUT_S)
    assert printed.decode().strip() == f"{[str(tmp_path)]} True {sys.executable}"
    with started(tmp_path, "-c", "print(1 + 1)") as process:
        assert process.communicate(timeout=TIMEOUT_S)[0] == b"2\n"


@pytest.mark.parametrize("answer", [struct.pack("!i", 3) + b"err", b""])
def test_another_one_that_listens_is_told_nothing_more(listening: socket.socket, answer: bytes) -> None:
    port = listening.getsockname()[1]
    with ThreadPoolExecutor(1) as pool:
        heard = pool.submit(conversation, listening, answer)
        with pytest.raises(ConnectionError, match=f"port {port} isn't the JVM"):
            connect(port, SECRET)
        assert heard.result(TIMEOUT_S) == b""


def test_nobody_listening_is_a_failed_connection(listening: socket.socket) -> None:
    port = listening.getsockname()[1]
    listening.close()
    with pytest.raises(ConnectionError):
        connect(port, SECRET)


def told_secret(stream: BufferedRWPair) -> str:
    return stream.read(*struct.unpack("!i", stream.read(4))).decode()


def conversation(server: socket.socket, answer: bytes) -> bytes:
    """What a caller says after its secret and this answer."""
    caller, _ = server.accept()
    with caller, caller.makefile("rwb") as stream:
        assert told_secret(stream) == SECRET
        stream.write(answer)
        stream.flush()
        caller.shutdown(socket.SHUT_WR)
        return stream.read()


@contextmanager
def started(folder: Path, *arguments: str, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    interpreter = Path(sysconfig.get_path("scripts")) / INTERPRETER
    with subprocess.Popen([interpreter, *arguments], cwd=folder, env=environment, stdout=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def told(server: socket.socket) -> dict[str, str]:
    """What Spark tells a process that it starts by itself."""
    return {
        "PYTHON_WORKER_FACTORY_PORT": str(server.getsockname()[1]),
        "PYTHON_WORKER_FACTORY_SECRET": SECRET,
    }
