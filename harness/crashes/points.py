"""Where an app is killed, who dies there, and what its lives look like."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, cycle

from harness.crashes.harm import Harm


class Victim(StrEnum):
    """The processes that are killed. The rest of the app goes on for as long as it can, as a zombie."""

    DRIVER = "driver"
    JVM = "jvm"
    BOTH = "driver and jvm"
    WORKER = "worker"
    BROKER = "broker"


FATAL = (Victim.DRIVER, Victim.JVM, Victim.BOTH)
"""Without these an app ends."""


class Point(StrEnum):
    """The steps of a batch, in their order. The victim dies right there."""

    PLANNED = "batch planned"
    TASK_BEGUN = "task begun"
    TRANSACTION_OPEN = "transaction open"
    PARTLY_WRITTEN = "some outputs written, more input to come"
    RESTORE_BEGUN = "restore begun"
    RESTORING = "restoring"
    RECORDS_SENT = "records sent, before the commit"
    MARKER_SENT = "marker sent, before the commit"
    IN_COMMIT = "in the commit"
    TRANSACTION_COMMITTED = "after the commit"
    APPLYING = "before the local apply"
    APPLY_TORN = "in the local apply: its write is torn"
    APPLIED = "after the local apply"
    DEAD_LETTERS_WRITTEN = "dead letters written"
    WRITTEN = "batch written"
    COMMITTED = "batch committed"
    ANY = "at any moment"


IN_DRIVER = (Point.PLANNED, Point.DEAD_LETTERS_WRITTEN, Point.WRITTEN, Point.COMMITTED)
"""The points that the driver passes; the others are passed by its Python workers."""

IN_STORE = (Point.RESTORE_BEGUN, Point.RESTORING, Point.APPLYING, Point.APPLY_TORN, Point.APPLIED)
"""The points that only tasks with local stores pass."""

IN_TRANSACTION = (
    *(Point.TASK_BEGUN, Point.TRANSACTION_OPEN, Point.RECORDS_SENT),
    *(Point.MARKER_SENT, Point.IN_COMMIT, Point.TRANSACTION_COMMITTED),
)
"""The points that every task passes."""

POINTS = {
    "pos": (Point.PLANNED, *IN_TRANSACTION, Point.PARTLY_WRITTEN, *IN_STORE, Point.WRITTEN, Point.COMMITTED),
    "hadoop_export": (Point.PLANNED, *IN_TRANSACTION, *IN_DRIVER[1:]),
    "careless": (Point.PLANNED, *IN_TRANSACTION, Point.PARTLY_WRITTEN, *IN_STORE, Point.WRITTEN, Point.COMMITTED),
}
"""The points that each app passes."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A `kill -9` at a named point, or at any moment.

    Attributes:
        point: where.
        victim: who dies.
        partition: in which task; None for the first that comes to the point.
        stateful: whether in a task with local stores; None for either.
        pause_s: how long after the kill before; until then the app is left alone.
    """

    point: Point
    victim: Victim
    partition: int | None = None
    stateful: bool | None = None
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Life:
    """An app from one start to the next.

    Attributes:
        harm: what is done to its local stores before it starts.
        retries: whether Spark runs failed tasks again, as on a cluster; if not, a dead worker ends the app.
        kills: what happens to it, in this order. The last one ends it.
    """

    harm: Harm | None
    retries: bool
    kills: tuple[Kill, ...]


def lives(app: str, seed: int) -> Iterator[Life]:
    """The lives of an app, without end. Points, victims and harms come in turn."""
    rng = random.Random(f"{app}/{seed}")
    passed = [point for point in POINTS[app] if point not in _RESTORES]
    rng.shuffle(passed)
    in_driver = [point for point in passed if point in IN_DRIVER]
    in_task = [point for point in passed if point not in IN_DRIVER]
    workers, brokers, fatal = cycle(in_task), cycle(passed), cycle(FATAL)
    # A driver passes few points, and is killed only where the app ends.
    drivers = cycle(in_driver)
    ends = chain.from_iterable(zip(drivers, drivers, cycle(in_task), strict=False))
    harms = cycle([None, *Harm] if app in _WITH_STATE else [None])
    for number, harm in enumerate(harms):
        kills: list[Kill] = []
        if harm is not None:
            restoring = _RESTORES[number % 2]
            if number // _HARMS % 2:
                # It dies while its stores are restored, and the next life goes on with that.
                yield Life(harm, retries=False, kills=(Kill(restoring, next(fatal), stateful=True),))
                continue
            kills.append(Kill(restoring, Victim.WORKER if number % 3 else Victim.BROKER, stateful=True))
        if number % 7 == 6:
            yield Life(harm, retries=False, kills=(_kill(app, next(workers), Victim.WORKER, rng),))
            continue
        kills += [_kill(app, next(workers), Victim.WORKER, rng) for _ in range(_WORKERS)]
        if number % 2:
            kills.append(_kill(app, next(brokers), Victim.BROKER, rng))
        if number % 3 == 1:
            kills.append(Kill(Point.ANY, rng.choice((Victim.WORKER, Victim.BROKER)), pause_s=rng.uniform(0, 2)))
        if number % 5 == 3:
            kills.append(Kill(Point.ANY, next(fatal), pause_s=rng.uniform(0, 3)))
        else:
            kills.append(_kill(app, next(ends), next(fatal), rng))
        yield Life(harm, retries=True, kills=tuple(kills))


_WITH_STATE = ("pos", "careless")
_ONLY_STATE = ("careless",)
"""All of its tasks have local stores."""
_HARMS = len([None, *Harm])
_WORKERS = 6
"""Workers that die before a victim whose death ends the app: a start takes far longer than all of these."""
_RESTORES = (Point.RESTORE_BEGUN, Point.RESTORING)


def _kill(app: str, point: Point, victim: Victim, rng: random.Random) -> Kill:
    pause_s = rng.choice((0.0, 0.0, 1.0))
    if point in IN_DRIVER:
        return Kill(point, victim, pause_s=pause_s)
    # The export writes only the few dead letters, and all of them may be of one partition.
    if app not in _WITH_STATE:
        return Kill(point, victim, pause_s=pause_s)
    stateful = point in IN_STORE or app in _ONLY_STATE or rng.choice((True, False))
    return Kill(point, victim, rng.choice((None, *range(4))), stateful, pause_s)
