"""The log of a node is JSON, also where a library writes it."""

from __future__ import annotations

import json
import subprocess
import sys

_PROGRAM = """
import logging, structlog
from storekeeper.node.node_log import configure_log
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


_WITH_KEYS = """
import asyncio, gc, logging, threading, structlog
from storekeeper.node.node_log import configure_log
configure_log()
log = structlog.get_logger("node")
SECRET = "4629185225"

def look_up():
    {}[SECRET]

try:
    try:
        look_up()
    except KeyError as error:
        raise RuntimeError(f"no row {SECRET}") from error
except RuntimeError as error:
    log.exception("point_query_failed")
    log.error("request_failed", exc_info=error)
    logging.getLogger("library").error("failed", exc_info=error)

thread = threading.Thread(target=look_up, name="ranking")
thread.start()
thread.join()

async def fails(key):
    look_up()

async def main():
    asyncio.get_running_loop().call_soon({}.__getitem__, SECRET)
    task = asyncio.create_task(fails(SECRET))
    await asyncio.wait([task])
    del task
    gc.collect()

asyncio.run(main())
"""


def test_the_text_of_an_exception_is_not_logged_but_its_class_and_its_places_are() -> None:
    done = subprocess.run([sys.executable, "-c", _WITH_KEYS], capture_output=True, text=True, check=True)
    assert "4629185225" not in done.stderr
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"].partition(" <")[0] for line in lines] == [
        "point_query_failed",
        "request_failed",
        "failed",
        "thread_ended",
        "Exception in callback dict.__getitem__",
        "Task exception was never retrieved",
    ]
    for line in lines:
        assert "KeyError" in line["exception"]
    for line in lines[:3]:
        assert line["exception"].startswith("builtins.RuntimeError\n  <string>:")
        assert "in look_up" in line["exception"]


def test_a_process_without_rows_may_log_the_text_of_an_exception() -> None:
    chosen = _PROGRAM.replace("configure_log()", "configure_log(structlog.processors.format_exc_info)")
    written = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stderr
        for program in (_PROGRAM, chosen)
    ]
    assert ["division by zero" in lines for lines in written] == [False, True]
