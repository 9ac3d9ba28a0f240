"""Sessions of users.

Topic `user-events`, key UserID: {EventID, UserID, EventTime}. A session of the store `user-sessions` is replaced when
an event prolongs it, since start and end are in its key. Sessions that an event connects become one.

Each event counts once: it is recognised by EventID and EventTime for as long as it is not late. So the store
depends only on the set of events in time, not on their order or repeats. Store `seen-events` keeps the events.
"""

from __future__ import annotations

import msgspec

from spark_apps.operators.once import once
from state.seen_events import SEEN_EVENTS
from state.user_sessions import GAP, GRACE, USER_SESSIONS, UserSession
from storekeeper import (
    AppSettings,
    Code,
    KeySerde,
    StreamsBuilder,
    TimeMs,
    ValueSerde,
    Windowed,
    all_of,
    json_name,
    keyed_by,
    not_ahead,
    sessions,
    topology_app,
    with_window,
)

TOPIC = "user-events"


class UserEvent(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """Something that a user did. `event_id` distinguishes events of the same time."""

    event_id: Code
    user_id: Code
    event_time_ms: TimeMs


def topology(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Counts the events of each user's sessions."""
    events = streams.stream(
        TOPIC, ValueSerde(UserEvent, settings.max_record_bytes), keys=KeySerde(),
        check=all_of(keyed_by("UserID", user_of), not_ahead(time_of)),
        timestamps=lambda _, event: event.event_time_ms,
    )  # fmt: skip
    seen_once = once(streams, events, id_of, SEEN_EVENTS).group_by_key()
    seen_once.windowed_by(sessions(GAP, grace=GRACE)).aggregate(
        UserSession, with_window(with_event), merged, store=USER_SESSIONS
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
