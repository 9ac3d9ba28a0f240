"""What `order_location` reads and writes, and the stores that it keeps."""

from __future__ import annotations

from spark_apps.processor.late import late_store
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from state.names import dead_letter_topic
from state.query.definitions import StoreKind

_FIELDS = (
    ValueField("OrderNumber", "string"),
    ValueField("Status", "string"),
    ValueField("Latitude", "double"),
    ValueField("Longitude", "double"),
    ValueField("UpdatedTime", "timestamp"),
)

ORDER_LOCATIONS = StoreSpec(
    name="order-locations",
    app="order_location",
    kind=StoreKind.GLOBAL,
    topic="order-locations",
    value_fields=_FIELDS,
    written_anew=True,
)
"""Every node has all of it. The transformed topic itself is its changelog."""

ORDERS = StoreSpec(
    name="orders",
    app="order_location",
    value_fields=_FIELDS,
    written_anew=True,
)
"""The same rows, each partition on the nodes that it is assigned to: asked for over the network."""

LATE_ORDERS = late_store("order_location")

ORDER_LOCATION = AppSpec(
    name="order_location",
    title="Locations of the orders on their way",
    module="spark_apps.order_location.app",
    topology="spark_apps.order_location.topology",
    sources=lambda settings: (settings.topic_order_events,),
    sinks=lambda _: (),
    dead_letters=lambda settings: (dead_letter_topic(settings.topic_order_events),),
    stores=(ORDER_LOCATIONS, ORDERS, LATE_ORDERS),
)
