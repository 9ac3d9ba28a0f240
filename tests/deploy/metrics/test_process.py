"""The process that tells Prometheus."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2

from tests.broker import free_ports
from tests.waiting import eventually


def test_it_answers_on_loopback_and_ends_on_term(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    environment = {**os.environ, "STOREKEEPER_RUN_DIR": str(tmp_path)}  # noqa: TID251 (the child needs PATH and such)
    process = subprocess.Popen([sys.executable, "-m", "deploy.metrics", "--port", str(port)], env=environment)
    try:

        def answers() -> bool:
            assert process.poll() is None
            try:
                return "spark_app_up" in httpx2.get(f"http://127.0.0.1:{port}/metrics", trust_env=False).text
            except httpx2.TransportError:
                return False

        eventually(answers, 60, "the metrics can be read")
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
