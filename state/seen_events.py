"""The events of users that are remembered, so that a repeat counts once. Key: UserID, and the event's time."""

from __future__ import annotations

from datetime import timedelta

from state.seen import Seen
from state.user_sessions import GAP, GRACE
from storekeeper import Store, StoreKind

RETENTION = GAP + GRACE + timedelta(milliseconds=1)
"""A single event is late once its own session would be closed."""

SEEN_EVENTS = Store("seen-events", Seen, kind=StoreKind.WINDOW, retention=RETENTION)
