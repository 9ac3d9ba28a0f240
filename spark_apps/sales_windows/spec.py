"""What `sales_windows` reads, and the stores that it keeps."""

from __future__ import annotations

from spark_apps.processor.late import late_store
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from state.query.definitions import StoreKind

_FIELDS = (
    ValueField("StoreID", "string"),
    ValueField("ItemCode", "string"),
    ValueField("WindowStart", "timestamp"),
    ValueField("WindowEnd", "timestamp"),
    ValueField("Sales", "bigint", never_negative=True, only_grows=True),
    ValueField("Quantity", "bigint", never_negative=True, only_grows=True),
    ValueField("Amount", "decimal(18,4)"),
)


def _window_store(name: str) -> StoreSpec:
    return StoreSpec(
        name=name,
        app="sales_windows",
        kind=StoreKind.WINDOW,
        retention_ms=lambda settings: settings.sales_retention_ms,
        value_fields=_FIELDS,
    )


SALES = _window_store("sales")
"""Tumbling windows: one after the other."""

SALES_HOPPING = _window_store("sales-hopping")
"""Hopping windows: a new one begins before the last one ends."""

LATE_SALES = late_store("sales_windows")

SALES_WINDOWS = AppSpec(
    name="sales_windows",
    title="Sales per store and item in windows of time",
    module="spark_apps.sales_windows.app",
    topology="spark_apps.sales_windows.topology",
    sources=lambda settings: (settings.topic_pos,),
    sinks=lambda _: (),
    stores=(SALES, SALES_HOPPING, LATE_SALES),
)
