"""`session_tracker` on Spark."""

from __future__ import annotations

from spark_apps.processor.on_spark import open_processor_stream
from spark_apps.session_tracker.spec import SESSION_TRACKER
from spark_apps.session_tracker.topology import processor
from spark_apps.stream import Stream, StreamContext


def open_stream(context: StreamContext) -> Stream:
    """The app's stream."""
    return open_processor_stream(context, SESSION_TRACKER, processor(context.settings))
