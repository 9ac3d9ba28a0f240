"""Health checks of containers, against real sockets and files."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from storekeeper.cli.container import all_beat
from storekeeper.cli.entry import app
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat, write_heartbeat

NOW_MS = 1_000_000


class _Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/good" else 503)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server() -> Iterator[int]:
    serving = http.server.HTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=serving.serve_forever)
    thread.start()
    yield serving.server_address[1]
    serving.shutdown()
    thread.join(10)
    serving.server_close()


def healthy(*arguments: str) -> int:
    return CliRunner().invoke(app, ["container", "healthy", *arguments]).exit_code


def test_only_status_200_is_healthy(server: int) -> None:
    assert healthy("url", f"http://127.0.0.1:{server}/good") == 0
    assert healthy("url", f"http://127.0.0.1:{server}/bad") == 4
    assert healthy("url", "http://127.0.0.1:1/good") == 4


def test_a_port(server: int) -> None:
    assert healthy("port", "127.0.0.1", str(server)) == 0
    assert healthy("port", "127.0.0.1", "1") == 4


def test_every_app_that_should_run_has_to_say_so(tmp_path: Path) -> None:
    fresh = Heartbeat("pos", 1, 7, AppState.RUNNING, started_at_ms=0, updated_at_ms=NOW_MS)
    stale = replace(fresh, app="hadoop_export", updated_at_ms=0)
    write_heartbeat(tmp_path / "pos.json", fresh)
    assert all_beat(tmp_path, NOW_MS + 30_000)
    write_heartbeat(tmp_path / "hadoop_export.json", stale)
    assert not all_beat(tmp_path, NOW_MS + 30_000)
    write_heartbeat(tmp_path / "hadoop_export.json", replace(stale, state=AppState.STOPPED))
    assert all_beat(tmp_path, NOW_MS + 30_000)
    write_heartbeat(tmp_path / "hadoop_export.json", replace(stale, state=AppState.FAILED, updated_at_ms=NOW_MS))
    assert not all_beat(tmp_path, NOW_MS)
