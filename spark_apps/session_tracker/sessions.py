"""The open sessions of one user, and how an event changes them."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec


class Session(msgspec.Struct, array_like=True, frozen=True):
    """From the first event to the last one, both included, epoch milliseconds."""

    start_ms: int
    end_ms: int
    events: int


class UserSessions(msgspec.Struct, array_like=True):
    """What a task knows of a user.

    `sessions` are those that an event may still join, by start; no two are as close as the gap. `seen` holds time and
    digest of the events that may come a second time. `timer_ms` is when the user is looked at next, 0 if never.
    """

    sessions: list[Session] = msgspec.field(default_factory=list)
    seen: list[tuple[int, bytes]] = msgspec.field(default_factory=list)
    timer_ms: int = 0


@dataclass(frozen=True, slots=True)
class Merge:
    """What an event did: the sessions that are no more, and the one that stands in their place."""

    gone: tuple[Session, ...]
    merged: Session


@dataclass(frozen=True, slots=True)
class SessionWindows:
    """When events belong together, and for how long they may come.

    Attributes:
        gap_ms: two events belong to one session if no more than this lies between them.
        grace_ms: an event is late once a session of its own would have ended longer ago than this.
    """

    gap_ms: int
    grace_ms: int

    @property
    def final_after_ms(self) -> int:
        """A session that ended longer than this before stream time can't be joined by an event that isn't late."""
        return 2 * self.gap_ms + self.grace_ms

    def is_late(self, event_time_ms: int, stream_time_ms: int) -> bool:
        """Whether an event comes too late."""
        return event_time_ms + self.gap_ms + self.grace_ms < stream_time_ms

    def is_final(self, session: Session, stream_time_ms: int) -> bool:
        """Whether nothing can change the session any more."""
        return session.end_ms + self.final_after_ms < stream_time_ms

    def add(self, user: UserSessions, event_time_ms: int) -> Merge:
        """Adds an event to the user's sessions, merging those that it connects."""
        near = [session for session in user.sessions if self._touches(session, event_time_ms)]
        merged = Session(
            min([event_time_ms, *(session.start_ms for session in near)]),
            max([event_time_ms, *(session.end_ms for session in near)]),
            1 + sum(session.events for session in near),
        )
        rest = [session for session in user.sessions if session not in near]
        user.sessions = sorted([*rest, merged], key=lambda session: session.start_ms)
        return Merge(tuple(near), merged)

    def forget(self, user: UserSessions, stream_time_ms: int) -> list[Session]:
        """Takes out what can't matter any more; returns the sessions that became final."""
        final = [session for session in user.sessions if self.is_final(session, stream_time_ms)]
        if final:
            user.sessions = [session for session in user.sessions if session not in final]
        user.seen = [event for event in user.seen if not self.is_late(event[0], stream_time_ms)]
        return final

    def _touches(self, session: Session, event_time_ms: int) -> bool:
        return session.start_ms - self.gap_ms <= event_time_ms <= session.end_ms + self.gap_ms
