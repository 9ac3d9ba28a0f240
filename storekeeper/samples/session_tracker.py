"""Sessions of users.

Topic `user-events`, key UserID: {EventID, UserID, EventTime}. A session of the store `user-sessions` is replaced when
an event prolongs it, since start and end are in its key. Sessions that an event connects become one.

Each event counts once: it is recognised by EventID and EventTime for as long as it is not late. So the store
depends only on the set of events in time, not on their order or repeats. Store `seen-events` keeps the events.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from storekeeper.apps.records import Code, KeySerde, TimeMs, ValueSerde, all_of, json_name, keyed_by, not_ahead
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.samples.once import once
from storekeeper.stores.windowed import Windowed
from storekeeper.topology import Store, StreamsBuilder, sessions, with_window

TOPIC = "user-events"
GAP = timedelta(minutes=30)
"""The inactivity after which a session ends."""
GRACE = timedelta(minutes=10)
"""An event is late once a session of it alone would have ended longer ago than this."""
RETENTION = timedelta(days=7)
"""How long an ended session stays in the store."""
Time = Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]
Events = Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})]


class UserEvent(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """Something that a user did. `event_id` distinguishes events of the same time."""

    event_id: Code
    user_id: Code
    event_time_ms: TimeMs


class UserSession(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """A row of the store: from the first event to the last one, both included."""

    user_id: str = ""
    session_start_ms: Time = 0
    last_activity_ms: Time = 0
    event_count: Events = 0


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Counts the events of each user's sessions."""
    events = streams.stream(
        TOPIC, ValueSerde(UserEvent, settings.max_record_bytes), keys=KeySerde(),
        check=all_of(keyed_by("UserID", user_of), not_ahead(time_of)),
        timestamps=lambda _, event: event.event_time_ms,
    )  # fmt: skip
    # A single event is late once its own session would be closed.
    memory_ms = (GAP + GRACE) // timedelta(milliseconds=1) + 1
    once(streams, events, id_of, store="seen-events", memory_ms=memory_ms).group_by_key().windowed_by(
        sessions(GAP, grace=GRACE)
    ).aggregate(
        UserSession, with_window(with_event), merged, store=Store("user-sessions", UserSession, retention=RETENTION)
    )


def with_event(session: Windowed[str], row: UserSession, _event: UserEvent) -> UserSession:
    """The session's row with one more event."""
    return UserSession(session.key, session.start_ms, session.end_ms, row.event_count + 1)


def merged(one: UserSession, two: UserSession) -> UserSession:
    """The events of both sessions. The event that connects them sets the bounds."""
    return UserSession(event_count=one.event_count + two.event_count)


def id_of(event: UserEvent) -> str:
    """The id, which distinguishes events of one user and time."""
    return event.event_id


def user_of(event: UserEvent) -> str:
    """The user of an event."""
    return event.user_id


def time_of(event: UserEvent) -> int:
    """The time of an event, epoch ms."""
    return event.event_time_ms


SESSION_TRACKER = topology_app("session_tracker", topology, title="Sessions of users")
