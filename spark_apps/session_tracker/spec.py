"""What `session_tracker` reads, and the stores that it keeps."""

from __future__ import annotations

from spark_apps.processor.late import late_store
from spark_apps.spec import AppSpec, StoreSpec, ValueField
from state.names import dead_letter_topic
from state.query.definitions import StoreKind

USER_SESSIONS = StoreSpec(
    name="user-sessions",
    app="session_tracker",
    kind=StoreKind.SESSION,
    retention_ms=lambda settings: settings.session_retention_ms,
    value_fields=(
        ValueField("UserID", "string"),
        ValueField("SessionStart", "timestamp"),
        ValueField("LastActivity", "timestamp"),
        ValueField("EventCount", "bigint", never_negative=True, only_grows=True),
    ),
)
LATE_EVENTS = late_store("session_tracker")

SESSION_TRACKER = AppSpec(
    name="session_tracker",
    title="Sessions of users",
    module="spark_apps.session_tracker.app",
    topology="spark_apps.session_tracker.topology",
    sources=lambda settings: (settings.topic_user_events,),
    sinks=lambda _: (),
    dead_letters=lambda settings: (dead_letter_topic(settings.topic_user_events),),
    stores=(USER_SESSIONS, LATE_EVENTS),
)
