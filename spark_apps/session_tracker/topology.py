"""From what users do to sessions.

Topic `user-events`, key UserID: {EventID, UserID, EventTime}. A session of the store `user-sessions` is replaced when
an event prolongs it, since start and end are in its key; what it was before becomes a tombstone. Sessions that an
event connects become one. A final session stays in the store for `session_retention_ms`, then a tombstone follows.

Each event counts once: it is recognised by EventID and EventTime for as long as it isn't late. So the store is what
the set of events in time makes it, in whatever order and however often they came.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import msgspec
import orjson
import xxhash

from spark_apps.processor.processor import ProcessorContext
from spark_apps.processor.records import SourceRecord
from spark_apps.records.poison import Code, PoisonRecordError, StrictDecoder, TimeMs
from spark_apps.session_tracker.sessions import Session, SessionWindows, UserSessions
from spark_apps.session_tracker.spec import USER_SESSIONS
from spark_apps.settings import AppSettings
from state.keys.sessions import decode_session_row_key, session_row_key

_USER, _EXPIRED = b"u", b"x"


class UserEvent(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"event_id": "EventID", "user_id": "UserID", "event_time_ms": "EventTime"},
):
    """Something that a user did. `event_id` tells events of the same time apart."""

    event_id: Code
    user_id: Code
    event_time_ms: TimeMs


_decode = msgspec.msgpack.Decoder(UserSessions).decode
_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class SessionTracker:
    """Keeps the open sessions of each user."""

    windows: SessionWindows
    retention_ms: int
    max_record_bytes: int

    def process(self, record: SourceRecord, context: ProcessorContext) -> None:
        """Adds an event to its user's sessions."""
        event = parse_user_event(record.key, record.value, max_record_bytes=self.max_record_bytes)
        context.advance(event.event_time_ms)
        if self.windows.is_late(event.event_time_ms, context.stream_time_ms):
            context.late()
            return
        key = event.user_id.encode()
        user = _user(context, key)
        digest = event.event_time_ms, xxhash.xxh3_64_digest(event.event_id.encode())
        if digest in user.seen:
            return
        self._settle(context, key, user)
        user.seen.append(digest)
        merge = self.windows.add(user, event.event_time_ms)
        for session in merge.gone:
            context.change(USER_SESSIONS.name, _row_key(key, session), None, inner_key=key)
        value = session_value(event.user_id, merge.merged)
        context.change(USER_SESSIONS.name, _row_key(key, merge.merged), value, inner_key=key)
        self._keep(context, key, user)

    def punctuate(self, key: bytes, context: ProcessorContext) -> None:
        """Looks whether sessions of a user have become final, or deletes one whose time in the store is over."""
        kind, rest = key[:1], key[1:]
        if kind == _EXPIRED:
            context.change(USER_SESSIONS.name, rest, None, inner_key=decode_session_row_key(rest)[0])
            return
        user = _user(context, rest)
        user.timer_ms = 0
        self._settle(context, rest, user)
        self._keep(context, rest, user)

    def _settle(self, context: ProcessorContext, key: bytes, user: UserSessions) -> None:
        for session in self.windows.forget(user, context.stream_time_ms):
            context.schedule(session.end_ms + self.retention_ms, _EXPIRED + _row_key(key, session))

    def _keep(self, context: ProcessorContext, key: bytes, user: UserSessions) -> None:
        if user.sessions and not user.timer_ms:
            user.timer_ms = user.sessions[0].end_ms + self.windows.final_after_ms + 1
            context.schedule(user.timer_ms, _USER + key)
        # An event that may come again belongs to a session that isn't final, so there is none without one.
        context.put(_USER + key, _encode(user) if user.sessions else None)


def processor(settings: AppSettings) -> SessionTracker:
    """The app's logic under these settings."""
    return SessionTracker(
        SessionWindows(settings.session_gap_ms, settings.session_grace_ms),
        settings.session_retention_ms,
        settings.max_record_bytes,
    )


def parse_user_event(key: bytes | None, value: bytes | None, *, max_record_bytes: int) -> UserEvent:
    """The event in a record of `user-events`.

    Raises:
        PoisonRecordError: it is none: see `StrictDecoder.decode`; or its key is another user's.
    """
    event = _decoder(max_record_bytes).decode(key, value)
    if key != event.user_id.encode():
        raise PoisonRecordError("the key is not the UserID")
    return event


def session_value(user_id: str, session: Session) -> bytes:
    """The row of the store."""
    return orjson.dumps(
        {
            "UserID": user_id,
            "SessionStart": session.start_ms,
            "LastActivity": session.end_ms,
            "EventCount": session.events,
        }
    )


def _user(context: ProcessorContext, key: bytes) -> UserSessions:
    stored = context.get(_USER + key)
    return UserSessions() if stored is None else _decode(stored)


def _row_key(key: bytes, session: Session) -> bytes:
    return session_row_key(key, session.start_ms, session.end_ms)


@lru_cache(maxsize=4)
def _decoder(max_record_bytes: int) -> StrictDecoder[UserEvent]:
    return StrictDecoder(UserEvent, max_record_bytes=max_record_bytes)
