"""`template_app` on Spark."""

from __future__ import annotations

from spark_apps.new_app.template_app.spec import TEMPLATE_APP
from spark_apps.new_app.template_app.topology import processor
from spark_apps.processor.on_spark import open_processor_stream
from spark_apps.stream import Stream, StreamContext


def open_stream(context: StreamContext) -> Stream:
    """The app's stream."""
    return open_processor_stream(context, TEMPLATE_APP, processor(context.settings))
