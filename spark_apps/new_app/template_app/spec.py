"""What `template_app` reads, and the store that it keeps."""

from __future__ import annotations

from spark_apps.spec import AppSpec, StoreSpec, ValueField, same_key
from state.names import dead_letter_topic

EVENTS = "template_app-events"

TOTALS = StoreSpec(
    name="totals",
    app="template_app",
    value_fields=(ValueField("Key", "string"), ValueField("Events", "bigint"), ValueField("Total", "bigint")),
    state_key=same_key,  # what a clean-up deletes can be forgotten by a new generation, too
)

TEMPLATE_APP = AppSpec(
    name="template_app",
    title="What each key has added up to",
    module="spark_apps.new_app.template_app.app",
    topology="spark_apps.new_app.template_app.topology",
    sources=lambda _: (EVENTS,),
    sinks=lambda _: (),
    dead_letters=lambda _: (dead_letter_topic(EVENTS),),
    stores=(TOTALS,),
)
