"""What `hadoop_export` reads and writes."""

from __future__ import annotations

from spark_apps.spec import AppSpec

TABLE = "hadoop_export_staged"
"""The Delta table: line items that the quality gate has not seen yet."""

HADOOP_EXPORT = AppSpec(
    name="hadoop_export",
    title="Masked line items to Delta",
    module="spark_apps.hadoop_export.app",
    sources=lambda settings: (settings.topic_hadoop_sink,),
    sinks=lambda _: (),
    dead_letters=lambda settings: (settings.hadoop_sink_dead_letters,),
)
