"""Topologies that the engine's tests run."""

from __future__ import annotations

import msgspec

from spark_apps.settings import AppSettings
from state.topology import Store, StreamsBuilder


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


def shuffled(streams: StreamsBuilder, _: AppSettings) -> None:
    """Odd numbers by their last digit, and every number to a topic."""
    numbers = streams.stream("shuffled-numbers", int)
    numbers.to("shuffled-copies")
    odd = numbers.filter(lambda _, number: number % 2 == 1).select_key(lambda _, number: str(number % 10))
    odd.group_by_key().aggregate(Totals, Totals.plus, store=Store("digits", Totals)).to_stream().to("shuffled-out")
