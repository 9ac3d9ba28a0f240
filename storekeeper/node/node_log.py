"""The log of a node: one JSON object per line, for messages of the node and of libraries.

No line has a key or a value of a row. The text of an exception may be one, such as that of `KeyError(key)`, so of an
exception only its class and its places in the code are logged.
"""

from __future__ import annotations

import logging
import sys
import threading
import traceback
from typing import Any

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import EventDict, Processor


def only_places(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Replaces an exception by its class and its places in the code, and those of its causes."""
    exc_info = line.pop("exc_info", None)
    error = sys.exception() if exc_info is True else exc_info[1] if isinstance(exc_info, tuple) else exc_info
    lines: list[str] = []
    seen: set[int] = set()
    while isinstance(error, BaseException) and id(error) not in seen:
        seen.add(id(error))
        frames = traceback.extract_tb(error.__traceback__)
        lines += [f"{type(error).__module__}.{type(error).__qualname__}"]
        lines += [f"  {frame.filename}:{frame.lineno} in {frame.name}" for frame in frames]
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if lines:
        line["exception"] = "\n".join(lines)
    return line


def configure_log(exceptions: Processor = only_places) -> None:
    """Sets up the log of this process, on standard error. Libraries log warnings and errors only. `exceptions` says
    what becomes of an exception in a line. A process that holds no rows may log its text.
    """
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        exceptions,
    ]
    written = structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[*shared, written],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        ProcessorFormatter(
            foreign_pre_chain=[structlog.stdlib.add_logger_name, _without_arguments, *shared],
            processors=[ProcessorFormatter.remove_processors_meta, written],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
    threading.excepthook = _on_end_of_thread


def _without_arguments(_logger: Any, _method: str, line: EventDict) -> EventDict:
    """Cuts what asyncio tells of a callback or task: the arguments of one, and the exception of the other."""
    if line.get("logger") == "asyncio":
        line["event"] = str(line["event"]).partition("\n")[0].partition("(")[0].rstrip()
    return line


def _on_end_of_thread(ended: threading.ExceptHookArgs) -> None:
    name = ended.thread.name if ended.thread is not None else None
    structlog.get_logger(__name__).error("thread_ended", thread=name, exc_info=ended.exc_value)
