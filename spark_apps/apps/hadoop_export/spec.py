"""What `hadoop_export` reads and writes."""

from __future__ import annotations

from spark_apps.apps.records.topics import HADOOP_SINK
from spark_apps.spec import AppSpec
from state.names import dead_letter_topic

TABLE = "hadoop_export_staged"
"""The Delta table: line items that the quality gate has not seen yet."""

HADOOP_EXPORT = AppSpec(
    name="hadoop_export",
    title="Masked line items to Delta",
    module="spark_apps.apps.hadoop_export.app",
    sources=lambda _: (HADOOP_SINK,),
    sinks=lambda _: (),
    dead_letters=lambda _: (dead_letter_topic(HADOOP_SINK),),
)
