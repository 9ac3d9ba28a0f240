"""`ticks` on Spark."""

from __future__ import annotations

from spark_apps.processor.on_spark import open_processor_stream
from spark_apps.stream import Stream, StreamContext
from spark_apps.ticks.spec import TICKS
from spark_apps.ticks.topology import processor


def open_stream(context: StreamContext) -> Stream:
    """The app's stream."""
    return open_processor_stream(context, TICKS, processor(context.settings), keeps_state=False)
