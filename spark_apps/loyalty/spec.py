"""What `loyalty` reads and writes, and the store that it keeps."""

from __future__ import annotations

from spark_apps.spec import AppSpec, StoreSpec, ValueField

REWARDS = StoreSpec(
    name="rewards",
    app="loyalty",
    value_fields=(
        ValueField("CustomerCardNo", "string"),
        ValueField("TotalLoyaltyPoints", "decimal(18,4)", never_negative=True, only_grows=True),
        ValueField("InvoiceCount", "bigint", never_negative=True, only_grows=True),
        ValueField("LastInvoiceTime", "timestamp", only_grows=True),
    ),
    key_field="CustomerCardNo",
)

LOYALTY = AppSpec(
    name="loyalty",
    title="Loyalty points of prime customers",
    module="spark_apps.loyalty.app",
    sources=lambda settings: (settings.topic_purchases,),
    sinks=lambda settings: (settings.topic_loyalty,),
    stores=(REWARDS,),
    seeding="spark_apps.loyalty.seeding:SEED_RULES",
    migrations="spark_apps.loyalty.migrations:MIGRATIONS",
)
