"""Orders for the careless app: good ones, ones that its functions fail on, and poison."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count, cycle

import msgspec
import orjson

from harness.crashes.careless import AHEAD, AHEAD_OF_ALL_MS, FAILS, Order
from harness.poison import BAD_TEXT_KEYS, ODD_TIMES_MS, POISON, Poison

BEGIN_MS = 1_595_600_000_000
END_MS = BEGIN_MS + 30 * 86_400_000
"""The time of the last orders, which close all windows before them."""
_FAR_AHEAD_MS = BEGIN_MS + 365 * 86_400_000
_ODD_SHARE = 0.01
_ODD_TIMES_MS = [*ODD_TIMES_MS.values()]
_MANY = 64
"""Enough keys that each partition has some."""


@dataclass(slots=True)
class Orders:
    """Endless records for topic `orders`.

    Attributes:
        seed: of everything random.
        bad_share: how many of them fail.
        step_ms: from the time of an order to that of the next.
        by_the_clock: whether some are ahead of all time: it takes a broker to find that.
    """

    seed: int
    bad_share: float = 0.03
    step_ms: int = 200
    by_the_clock: bool = True
    _rng: random.Random = field(init=False)
    _numbers: Iterator[int] = field(default_factory=count)
    _bad: Iterator[str | Poison] = field(init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)
        fails = [*FAILS, AHEAD] if self.by_the_clock else [*FAILS]
        undecodable: list[str | Poison] = [Poison(b"card-1", poison.value) for poison in POISON.values()]
        # Twice, so that a function fails as often as a decoder.
        self._bad = cycle([*fails, *fails, *undecodable, *bad_keys()])

    def take(self, number: int) -> list[Poison]:
        """The next records."""
        return [self._next() for _ in range(number)]

    def last(self) -> list[Poison]:
        """Records that close all windows, in all partitions."""
        names = [f"end-{number}" for number in range(_MANY)]
        return [_record(Order(f"last-{name}", name, name, name, 1, END_MS)) for name in names]

    def _next(self) -> Poison:
        bad = next(self._bad) if self._rng.random() < self.bad_share else ""
        if isinstance(bad, Poison):
            return bad
        order = self._order(bad)
        # The time of its record doesn't matter, as the app takes the order's own.
        is_odd = self._rng.random() < _ODD_SHARE
        return _record(order, self._rng.choice(_ODD_TIMES_MS) if is_odd else None)

    def _order(self, fails: str) -> Order:
        rng, number = self._rng, next(self._numbers)
        time_ms = BEGIN_MS + number * self.step_ms
        if "far ahead" in fails:
            time_ms = _FAR_AHEAD_MS
        elif fails == AHEAD:
            time_ms = AHEAD_OF_ALL_MS
        names = (f"card-{rng.randrange(40)}", f"shop-{rng.randrange(12)}", f"item-{rng.randrange(8)}")
        return Order(f"{self.seed}-{number}", *names, rng.randrange(-500, 10_000), time_ms, fails)


def bad_keys() -> list[Poison]:
    """Sound orders under keys that are not text."""
    keys = [BAD_TEXT_KEYS["not UTF-8"], BAD_TEXT_KEYS["surrogate"]]
    return [Poison(key, orjson.dumps(msgspec.to_builtins(_UNDER_BAD_KEY))) for key in keys]


_UNDER_BAD_KEY = Order("under a bad key", "card-1", "shop-1", "item-1", 1, BEGIN_MS)


def _record(order: Order, timestamp_ms: int | None = None) -> Poison:
    return Poison(order.card.encode(), msgspec.json.encode(order), timestamp_ms)
