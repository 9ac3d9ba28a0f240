"""Where a batch can be cut off, by name, and who dies there."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle


class Victim(StrEnum):
    """Who is killed. Whoever is left goes on for as long as it can, as a zombie."""

    DRIVER = "driver"
    JVM = "jvm"
    BOTH = "driver and jvm"
    WORKER = "worker"


class Point(StrEnum):
    """The steps of a batch, in their order. The app dies right after one."""

    PLANNED = "batch planned"
    TASK_BEGUN = "task begun"
    TRANSACTION_OPEN = "transaction open"
    RECORDS_SENT = "records sent"
    MARKER_SENT = "marker sent"
    TRANSACTION_COMMITTED = "transaction committed"
    APPLIED = "changes applied to the local stores"
    DEAD_LETTERS_WRITTEN = "dead letters written"
    WRITTEN = "batch written"
    COMMITTED = "batch committed"


ANY_SLOT = -1

IN_DRIVER = (Point.PLANNED, Point.WRITTEN, Point.COMMITTED, Point.DEAD_LETTERS_WRITTEN)
"""The points that the driver passes; the others are passed by its Python workers."""

_IN_TASK = (
    Point.TASK_BEGUN,
    Point.TRANSACTION_OPEN,
    Point.RECORDS_SENT,
    Point.MARKER_SENT,
    Point.TRANSACTION_COMMITTED,
)
_ALWAYS = (Point.PLANNED, *_IN_TASK, Point.WRITTEN, Point.COMMITTED)

POINTS = {
    "pos": (*_ALWAYS, Point.APPLIED),
    "hadoop_export": (*_ALWAYS, Point.DEAD_LETTERS_WRITTEN),
}
"""The points that each app passes."""


@dataclass(frozen=True, slots=True)
class Crash:
    """A death at a named point of the batch that comes `skip` batches after the app's start, or of a later one.

    With `skip` 0 that is the very batch that a crash before may have left open. A worker dies in the task of `slot`,
    which may be `ANY_SLOT`.
    """

    point: Point
    victim: Victim
    skip: int
    slot: int


@dataclass(frozen=True, slots=True)
class RandomCrash:
    """A death at any moment: so long after the app has said that it runs."""

    victim: Victim
    after_s: float


@dataclass(frozen=True, slots=True)
class BrokerCrash:
    """The broker's death, so long after the app has said that it runs, and how long it stays dead."""

    after_s: float
    dead_s: float


Round = Crash | RandomCrash | BrokerCrash
"""What happens to an app from one of its starts to the next."""


def rounds(app: str, seed: int) -> Iterator[Round]:
    """What happens to an app, without end: every named point in turn, and others in between."""
    rng = random.Random(f"{app}/{seed}")
    points = list(POINTS[app])
    rng.shuffle(points)
    # The export writes only the few dead letters, and all of them may be of one partition.
    slots = [ANY_SLOT] if app == "hadoop_export" else range(4)
    for number, point in enumerate(cycle(points)):
        victims = [victim for victim in Victim if victim != Victim.WORKER or point not in IN_DRIVER]
        yield Crash(point, rng.choice(victims), rng.choice((0, 1, 1, 2)), rng.choice(slots))
        if number % 2:
            yield RandomCrash(rng.choice(list(Victim)), rng.uniform(0, 4))
        if number % 8 == 5:
            yield BrokerCrash(rng.uniform(0, 4), rng.uniform(0, 2))
