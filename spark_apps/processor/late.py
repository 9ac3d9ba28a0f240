"""The store that tells how many of an app's records came too late."""

from __future__ import annotations

from spark_apps.spec import StoreSpec, ValueField


def late_store(app: str) -> StoreSpec:
    """Store `<app>-late`: by source partition, how many records were dropped because they came too late."""
    fields = (ValueField("Partition", "int"), ValueField("LateRecords", "bigint", never_negative=True, only_grows=True))
    return StoreSpec(name=f"{app}-late", app=app, value_fields=fields, bounded=True)
