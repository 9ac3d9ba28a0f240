"""The log of a node: one JSON object per line, for messages of the node and of libraries."""

from __future__ import annotations

import logging
import sys

import structlog
from structlog.stdlib import ProcessorFormatter
from structlog.typing import Processor


def configure_log() -> None:
    """Sets up the log of this process, on standard error. Libraries log warnings and errors only."""
    shared: list[Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.processors.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
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
            foreign_pre_chain=[structlog.stdlib.add_logger_name, *shared],
            processors=[ProcessorFormatter.remove_processors_meta, written],
        )
    )
    logging.basicConfig(level=logging.WARNING, handlers=[handler], force=True)
