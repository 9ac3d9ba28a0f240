"""What `pos_fanout` reads and writes."""

from __future__ import annotations

from spark_apps.spec import AppSpec

POS_FANOUT = AppSpec(
    name="pos_fanout",
    title="Invoices to shipments and masked line items",
    module="spark_apps.pos_fanout.app",
    sources=lambda settings: (settings.topic_pos,),
    sinks=lambda settings: (settings.topic_shipment, settings.topic_hadoop_sink, settings.topic_purchases),
    dead_letters=lambda settings: (settings.pos_dead_letters,),
)
