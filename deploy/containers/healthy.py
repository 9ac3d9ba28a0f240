"""Health checks of containers."""

from __future__ import annotations

import socket
import ssl
import urllib.request
from pathlib import Path

from spark_apps.runtime.app_health import is_silent
from spark_apps.runtime.heartbeat import AppState, read_heartbeat

_TIMEOUT_S = 4.0


def answers_ok(url: str, ca: Path | None = None) -> bool:
    """Whether a GET of `url` gives status 200; `ca` is the PEM file of the authority to trust, None the system's."""
    context = ssl.create_default_context(cafile=ca) if url.startswith("https:") else None
    opener = urllib.request.build_opener(
        urllib.request.ProxyHandler({}), *([urllib.request.HTTPSHandler(context=context)] if context else [])
    )
    try:
        with opener.open(url, timeout=_TIMEOUT_S) as answer:
            return int(answer.status) == 200
    except OSError:
        return False


def listens(host: str, port: int) -> bool:
    """Whether something takes connections there."""
    try:
        with socket.create_connection((host, port), _TIMEOUT_S):
            return True
    except OSError:
        return False


def all_beat(folder: Path, now_ms: int) -> bool:
    """Whether every heartbeat in `folder` is fresh and not FAILED. Those of stopped apps don't count."""
    found = [read_heartbeat(path) for path in sorted(folder.glob("*.json"))]
    return not any(beat.state is AppState.FAILED or is_silent(beat, now_ms) for beat in found if beat is not None)
