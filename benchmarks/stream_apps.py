"""The apps of `make bench-app`, `-windows`, `-join` and `-growth`: what a first app looks like."""

from __future__ import annotations

from datetime import timedelta
from functools import partial

import msgspec

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import topology_app
from storekeeper.topology import Store, StreamsBuilder, tumbling

EVENTS = "bench-events"
NAMES = "bench-names"
JOINED = "bench-joined"
WINDOW = timedelta(hours=1)
GRACE = timedelta(minutes=5)


class Event(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """So much of something."""

    amount: int


class Totals(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """What a key has added up to."""

    events: int = 0
    total: int = 0

    def with_event(self, event: Event) -> Totals:
        """The totals with one more event."""
        return Totals(self.events + 1, self.total + event.amount)


class Name(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """What a key is called."""

    name: str


class Named(msgspec.Struct, frozen=True, gc=False, rename="pascal"):
    """An event with the name of its key."""

    amount: int
    name: str


def named(event: Event, name: Name) -> Named:
    """The event with the name."""
    return Named(event.amount, name.name)


def totals(streams: StreamsBuilder, _: AppSettings) -> None:
    """Count and sum of each key."""
    streams.stream(EVENTS, Event).group_by_key().aggregate(Totals, Totals.with_event, store=Store("totals", Totals))


def windows(streams: StreamsBuilder, _: AppSettings) -> None:
    """Count and sum of each key and hour."""
    hours = streams.stream(EVENTS, Event).group_by_key().windowed_by(tumbling(WINDOW, grace=GRACE))
    hours.aggregate(Totals, Totals.with_event, store=Store("hours", Totals, retention=timedelta(days=1)))


def join(streams: StreamsBuilder, _: AppSettings) -> None:
    """Each event with its key's name."""
    names = streams.table(NAMES, Name, store="names")
    streams.stream(EVENTS, Event).join(names, named).to(JOINED)


def growth(stores: int) -> AppSpec:
    """Count and sum of each key, and again behind a shuffle for each further store: a sub-topology each."""

    def topology(streams: StreamsBuilder, _: AppSettings) -> None:
        events = streams.stream(EVENTS, Event)
        events.group_by_key().aggregate(Totals, Totals.with_event, store=Store("totals_1", Totals))
        for number in range(2, stores + 1):
            again = events.group_by(partial(_numbered_key, number))
            again.aggregate(Totals, Totals.with_event, store=Store(f"totals_{number}", Totals))

    return topology_app(f"bench_growth_{stores}", topology, title="Growth")


def _numbered_key(number: int, key: str, _: Event) -> str:
    return f"{number}-{key}"


APP = topology_app("bench_app", totals, title="Count and sum of each key")
WINDOWS = topology_app("bench_windows", windows, title="Count and sum of each key and hour")
JOIN = topology_app("bench_join", join, title="Events with names")
GROWTH_1, GROWTH_2, GROWTH_4, GROWTH_8 = (growth(stores) for stores in (1, 2, 4, 8))
