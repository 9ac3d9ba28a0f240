"""The process that tells Prometheus."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

from harness.ports import free_ports
from harness.waiting import eventually
from storekeeper.ops.containers.prepare import prepare_containers
from storekeeper.program import ExitCode


@contextmanager
def serving(run_dir: Path, *options: str, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """The process, and its port; it may not listen yet."""
    port = free_ports(1)[0]
    environment = {**os.environ, "STOREKEEPER_RUN_DIR": str(run_dir), **settings}  # noqa: TID251 (PATH and such)
    command = [sys.executable, "-m", "storekeeper.cli.entry", "metrics", "--port", str(port), *options]
    process = subprocess.Popen(command, env=environment)
    try:
        yield process, port
    finally:
        process.kill()
        process.wait()


def test_it_answers_on_loopback_and_ends_on_term(tmp_path: Path) -> None:
    with serving(tmp_path) as (process, port):

        def answers() -> bool:
            assert process.poll() is None
            try:
                return "spark_app_up" in httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
            except httpx2.TransportError:
                return False

        eventually(answers, 60, "the metrics can be read")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0


def test_beyond_loopback_it_needs_tls_and_asks_for_a_token(tmp_path: Path) -> None:
    prepare_containers(tmp_path)
    secrets = tmp_path / "secrets"
    tls = {
        "STOREKEEPER_TLS_CERTIFICATE": str(secrets / "metrics.pem"),
        "STOREKEEPER_TLS_KEY": str(secrets / "metrics.key"),
    }
    for settings in ({}, tls):
        with serving(tmp_path, "--host", "0.0.0.0", **settings) as (process, _):  # noqa: S104 (what is refused here)
            assert process.wait(60) == ExitCode.CONFIGURATION

    tokens = {"STOREKEEPER_TOKENS_FILE": str(secrets / "tokens")}
    context = ssl.create_default_context(cafile=secrets / "ca.pem")
    with (
        serving(tmp_path, "--host", "0.0.0.0", **tls, **tokens) as (process, port),  # noqa: S104 (as in containers)
        httpx2.Client(base_url=f"https://127.0.0.1:{port}", verify=context, trust_env=False) as client,
        contextlib.ExitStack() as stalled,
    ):

        def lives() -> bool:
            assert process.poll() is None
            try:
                return client.get("/livez").status_code == 200
            except httpx2.TransportError:
                return False

        eventually(lives, 60, "it listens")
        stalled.enter_context(socket.create_connection(("127.0.0.1", port)))  # and never begins its handshake
        token = (secrets / "prometheus-token").read_text()
        assert client.get("/metrics").status_code == 401
        assert client.get("/metrics", headers={"Authorization": f"Bearer {token}x"}).status_code == 401
        told = client.get("/metrics", headers={"Authorization": f"Bearer {token}"})
        assert (told.status_code, "spark_app_up" in told.text) == (200, True)
        with pytest.raises(httpx2.TransportError):
            httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False)
