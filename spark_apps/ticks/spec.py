"""What `ticks` reads, and the store that it keeps."""

from __future__ import annotations

from spark_apps.spec import AppSpec, StoreSpec, ValueField
from state.names import dead_letter_topic

PRICES = StoreSpec(
    name="prices",
    app="ticks",
    value_fields=(ValueField("Symbol", "string"), ValueField("Price", "decimal(18,8)")),
    written_anew=True,
)

TICKS = AppSpec(
    name="ticks",
    title="Last price per symbol",
    module="spark_apps.ticks.app",
    topology="spark_apps.ticks.topology",
    sources=lambda settings: (settings.topic_ticks,),
    sinks=lambda _: (),
    dead_letters=lambda settings: (dead_letter_topic(settings.topic_ticks),),
    stores=(PRICES,),
)
