"""Topologies that the engine's tests run."""

from __future__ import annotations

import operator
from datetime import timedelta
from functools import partial

import msgspec

from storekeeper.apps.settings import AppSettings
from storekeeper.serdes.serde import Utf8Serde
from storekeeper.topology import JoinWindows, Store, StoreKind, StreamsBuilder, TimeKind, tumbling
from storekeeper.topology.operators.process import ProcessorContext


class Totals(msgspec.Struct, frozen=True):
    """What a key has added up to."""

    events: int = 0
    total: int = 0

    def plus(self, amount: int) -> Totals:
        """The totals with one more event."""
        return Totals(self.events + 1, self.total + amount)


def counted(streams: StreamsBuilder, _: AppSettings) -> None:
    """Totals by the record's own key."""
    events = streams.stream("counted-events", int)
    events.group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals)).to_stream().to("counted-out")


def growing(streams: StreamsBuilder, _: AppSettings) -> None:
    """Sums by the record's own key."""
    streams.stream("growing-numbers", int).group_by_key().reduce(operator.add, store=Store("sums", int))


def grown(streams: StreamsBuilder, _: AppSettings) -> None:
    """The same sums, and behind them a repartition topic."""
    sums = streams.stream("growing-numbers", int).group_by_key().reduce(operator.add, store=Store("sums", int))
    sums.to_stream().repartition(named="by-key", partitions=1).to("growing-out")


def of_a_team(streams: StreamsBuilder, _: AppSettings) -> None:
    """Totals of another team's records, with a topic between two stores."""
    purchases = streams.stream("purchases", int)
    totals = purchases.group_by_key().aggregate(Totals, Totals.plus, store=Store("totals", Totals)).to_stream()
    totals.to("till-team.points-out")
    totals.select_key(_initial).repartition(named="initials").group_by_key().count(store="initials")


def _initial(key: str, _: Totals) -> str:
    return key[:1]


def shuffled(streams: StreamsBuilder, _: AppSettings) -> None:
    """Odd numbers by their last digit, and every number to a topic."""
    numbers = streams.stream("shuffled-numbers", int)
    numbers.to("shuffled-copies")
    odd = numbers.filter(lambda _, number: number % 2 == 1).select_key(lambda _, number: str(number % 10))
    odd.group_by_key().aggregate(Totals, Totals.plus, store=Store("digits", Totals)).to_stream().to("shuffled-out")


class KeepPassing:
    """Puts each number for ten seconds."""

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._rows = context.store("rows")

    def process(self, key: str, number: int, timestamp_ms: int) -> None:
        self._rows.put(key, number, timestamp_ms)


def passing(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers that live for ten seconds, in a store that nobody sweeps."""
    streams.add_store(Store("rows", int, kind=StoreKind.TTL, ttl=timedelta(seconds=10)))
    streams.stream("passing-numbers", int).process(KeepPassing, stores=["rows"], values=int)


class Ticking:
    """Counts in a store how often its timer has fired, every second of the wall clock, and forwards that."""

    def __init__(self, name: str) -> None:
        self._name = name

    def init(self, context: ProcessorContext[str, int]) -> None:
        self._context, self._ticks = context, context.store(self._name)
        context.schedule(1000, TimeKind.WALL_CLOCK, self._tick)

    def process(self, key: str, number: int, timestamp_ms: int) -> None:
        pass

    def _tick(self, _: int) -> None:
        count = (self._ticks.get("ticks") or 0) + 1
        self._ticks.put("ticks", count)
        self._context.forward(f"{self._name}-{self._context.partition}", count, self._context.timestamp_ms)


def ticking(streams: StreamsBuilder, settings: AppSettings) -> None:
    """Timers that fire without records, before a shuffle and behind it."""
    streams.add_store(Store("near", int))
    ticking_behind(streams, settings)
    numbers = streams.stream("ticking-numbers", int)
    numbers.process(partial(Ticking, "near"), stores=["near"], values=int).to("ticking-out")


def ticking_behind(streams: StreamsBuilder, _: AppSettings) -> None:
    """The same behind a shuffle alone."""
    streams.add_store(Store("far", int))
    numbers = streams.stream("ticking-numbers", int)
    moved = numbers.select_key(lambda _, number: str(number)).repartition(named="moved", partitions=2)
    moved.process(partial(Ticking, "far"), stores=["far"], values=int).to("ticking-out")


def with_bad_records(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers with operators that fail on some: before a shuffle, beside it, behind it, and half-way through stores."""
    numbers = streams.stream("bad-numbers", int, timestamps=_far_ahead_of_900)
    own = numbers.group_by_key().aggregate(Totals, Totals.plus, store=Store("own", Totals)).to_stream()
    own.to("bad-own")
    numbers.select_key(lambda _, number: str(100 // number % 10)).group_by_key().aggregate(
        Totals, _plus_but_13, store=Store("quotients", Totals)
    )
    numbers.peek(_not_7).to("bad-copies")
    streams.stream("bad-texts", str).map_values(_twice, values=str).to_table(store="texts").to_stream().to(
        "bad-texts-out"
    )


def reviewed(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers of two topics: the newest behind a shuffle, then totals behind a topic. A function fails there."""
    both = streams.stream("reviewed-numbers", int).merge(streams.stream("reviewed-more", int))
    seen = both.select_key(lambda _, number: str(number % 3)).group_by_key().reduce(_newer, store=Store("seen", int))
    seen.to_stream().group_by(lambda _, number: "all").aggregate(Totals, _plus_but_13, store=Store("all", Totals))


def held_up(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers added up in windows without grace, behind a shuffle."""
    digits = streams.stream("held-numbers", int).select_key(lambda _, number: "all").group_by_key()
    digits.windowed_by(tumbling(timedelta(seconds=1))).aggregate(
        Totals, _plus_but_13, store=Store("held-totals", Totals, retention=timedelta(hours=9))
    ).to_stream().map_values(lambda totals: totals.total, values=int).to("held-out")


def _newer(_: int, number: int) -> int:
    return number


def _far_ahead_of_900(_: str, number: int) -> int:
    return number * 10**10 if number > 900 else 1_700_000_000_000 + number


def _plus_but_13(totals: Totals, number: int) -> Totals:
    if number == 13:
        raise LookupError(number)
    return totals.plus(number)


def _twice(text: str) -> str:
    return text * 2


def _not_7(_: str, number: int) -> None:
    if number % 10 == 7:
        raise ValueError(number)


def regions(streams: StreamsBuilder, _: AppSettings) -> None:
    """Views joined with their users, and counted by the user's region in windows without grace, behind a topic."""
    users = streams.table("regions-users", str)
    views = streams.stream("regions-views", str).select_key(lambda _, user: user)
    by_region = views.left_join(users, _or_nowhere, values=str).group_by(lambda _, region: region)
    options = Store("regions", int, retention=timedelta(hours=1))
    by_region.windowed_by(tumbling(timedelta(seconds=1))).count(store=options)


def late_regions(streams: StreamsBuilder, _: AppSettings) -> None:
    """As `regions`, with windows that wait a little for records that are late."""
    users = streams.table("late-users", str)
    views = streams.stream("late-views", str).select_key(lambda _, user: user)
    by_region = views.left_join(users, _or_nowhere, values=str).group_by(lambda _, region: region)
    windows = tumbling(timedelta(seconds=1), grace=timedelta(seconds=2))
    by_region.windowed_by(windows).count(store=Store("regions", int, retention=timedelta(hours=1)))


def timed_views(streams: StreamsBuilder, _: AppSettings) -> None:
    """Views by user, in windows by the time in a view itself: "user time"."""
    views = streams.stream("timed-views", str, timestamps=lambda _, view: int(view.split()[1]))
    windows = tumbling(timedelta(seconds=1), grace=timedelta(seconds=2))
    by_user = views.group_by(lambda _, view: view.split()[0])
    by_user.windowed_by(windows).count(store=Store("users", int, retention=timedelta(hours=1)))


def _or_nowhere(_: str, region: str | None) -> str:
    return region or "nowhere"


class Sale(msgspec.Struct, frozen=True):
    """A number of an item, sold to a customer."""

    item: str
    number: int


class Customer(msgspec.Struct, frozen=True):
    """Where a customer lives."""

    city: str


class Named(msgspec.Struct, frozen=True):
    """A sale in a city, and then with its item's name."""

    city: str
    number: int
    item: str

    def named(self, name: str) -> Named:
        """With the name in place of the item."""
        return Named(self.city, self.number, name)

    def entry(self) -> tuple[str, int]:
        """What it counts for."""
        return f"{self.city} {self.item}", self.number


def in_city(sale: Sale, customer: Customer) -> Named:
    """The sale where its customer lives."""
    return Named(customer.city, sale.number, sale.item)


def joined(streams: StreamsBuilder, _: AppSettings) -> None:
    """Sales by city and item: a table, a global table, a repartition topic behind them."""
    customers = streams.table("joined-customers", Customer, store="customers")
    items = streams.global_table("joined-items", Utf8Serde())
    sales = streams.stream("joined-sales", Sale).join(customers, in_city)
    named = sales.join(items, Named.named, on=lambda _, sale: sale.item)
    numbers = named.map(lambda _, sale: sale.entry(), keys=str, values=int).group_by_key()
    numbers.reduce(lambda one, two: one + two, store="cities").to_stream().to("joined-out")


def paired(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers of two streams, joined: there are only the join's own stores, which no node serves."""
    right = streams.stream("paired-right", int)
    left = streams.stream("paired-left", int)
    left.join(right, operator.add, JoinWindows.of(timedelta(minutes=1)), values=int).to("paired-out")


def versioned(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers, joined with a versioned table."""
    prices = streams.table("versioned-prices", int, store=Store("prices", int, history=timedelta(hours=1)))
    streams.stream("versioned-sales", int).join(prices, operator.mul, values=int).to("versioned-out")


def merged(streams: StreamsBuilder, _: AppSettings) -> None:
    """Two inputs go into one output as they are: no store, no shuffle."""
    left, right = (streams.stream(f"merged-{side}", int, keys=str) for side in ("left", "right"))
    left.merge(right).to("merged-out")


def merged_before(streams: StreamsBuilder, _: AppSettings) -> None:
    """The app that only knew the first of the two inputs."""
    streams.stream("merged-left", int, keys=str).to("merged-out")


def stateless(streams: StreamsBuilder, _: AppSettings) -> None:
    """Numbers, doubled."""
    streams.stream("stateless-in", int).map_values(lambda number: 2 * number, values=int).to("stateless-out")
