"""The sessions of users. Key: UserID, and the times of the session's first and last event."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

import msgspec

from storekeeper import Store, json_name

GAP = timedelta(minutes=30)
"""The inactivity after which a session ends."""
GRACE = timedelta(minutes=10)
"""An event is late once a session of it alone would have ended longer ago than this."""
RETENTION = timedelta(days=7)
"""How long an ended session stays."""
_Time = Annotated[int, msgspec.Meta(extra={"sql": "timestamp"})]
_Events = Annotated[int, msgspec.Meta(ge=0, extra={"only_grows": True})]


class UserSession(msgspec.Struct, frozen=True, gc=False, rename=json_name):
    """A session, from the first event to the last one, both included."""

    user_id: str = ""
    session_start_ms: _Time = 0
    last_activity_ms: _Time = 0
    event_count: _Events = 0


USER_SESSIONS = Store("user-sessions", UserSession, retention=RETENTION)
