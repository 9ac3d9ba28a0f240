"""`sales_windows` on Spark."""

from __future__ import annotations

from spark_apps.processor.on_spark import open_processor_stream
from spark_apps.sales_windows.spec import SALES_WINDOWS
from spark_apps.sales_windows.topology import processor
from spark_apps.stream import Stream, StreamContext


def open_stream(context: StreamContext) -> Stream:
    """The app's stream."""
    return open_processor_stream(context, SALES_WINDOWS, processor(context.settings))
