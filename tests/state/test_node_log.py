"""The log of a node is JSON, also where a library writes it."""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import logging, structlog
from state.node_log import configure_log
configure_log()
structlog.get_logger("node").info("node_listens", port=1)
logging.getLogger("uvicorn.error").warning("Invalid HTTP request received.")
try:
    1 / 0
except ZeroDivisionError:
    logging.getLogger("asyncio").exception("Task exception was never %s", "retrieved")
logging.getLogger("httpx2").info("not of interest")
"""


def test_every_line_is_an_object() -> None:
    done = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [(line["level"], line["event"]) for line in lines] == [
        ("info", "node_listens"),
        ("warning", "Invalid HTTP request received."),
        ("error", "Task exception was never retrieved"),
    ]
    assert "ZeroDivisionError" in lines[2]["exception"]
    assert all(line["timestamp"] for line in lines)
