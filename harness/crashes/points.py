"""Where an app is killed, who dies there, and what its lives look like."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, cycle, repeat

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
    BETWEEN_READS = "between two reads of a range"
    PARTLY_WRITTEN = "some outputs written, more input to come"
    RANGE_READ = "range read to its end"
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

IN_READ = (Point.BETWEEN_READS, Point.RANGE_READ)
"""The points that a task passes for each partition that it reads of a topic."""

IN_RESTORE = (Point.RESTORE_BEGUN, Point.RESTORING)
"""The points that a task passes if its local stores are not whole."""

IN_STORE = (*IN_RESTORE, Point.APPLYING, Point.APPLY_TORN, Point.APPLIED)
"""The points that only tasks with local stores pass."""

IN_TRANSACTION = (
    *(Point.TASK_BEGUN, Point.TRANSACTION_OPEN, Point.RECORDS_SENT),
    *(Point.MARKER_SENT, Point.IN_COMMIT, Point.TRANSACTION_COMMITTED),
)
"""The points that every task passes."""

_OF_TOPOLOGIES = (
    *(Point.PLANNED, *IN_TRANSACTION, *IN_READ, Point.PARTLY_WRITTEN),
    *(*IN_STORE, Point.WRITTEN, Point.COMMITTED),
)
PROCESSES = {
    "pos": ("pos",),
    "hadoop_export": ("hadoop_export",),
    "careless": ("careless",),
    "shared_driver": ("ticks", "leaderboard", "order_location", "session_tracker", "sales_windows"),
}
"""The apps of each process."""
POINTS = {app: _OF_TOPOLOGIES for apps in PROCESSES.values() for app in apps} | {
    "hadoop_export": (Point.PLANNED, *IN_READ, *IN_TRANSACTION, *IN_DRIVER[1:])
}
"""The points that each app passes."""


@dataclass(frozen=True, slots=True)
class Kill:
    """A `kill -9` at a named point, or at any moment.

    Attributes:
        point: where.
        victim: who dies.
        app: in the batch of which app; None for any.
        partition: in which task; None for the first that comes to the point.
        stateful: whether in a task with local stores; None for either.
        pause_s: how long after the kill before; until then the app is left alone.
    """

    point: Point
    victim: Victim
    app: str | None = None
    partition: int | None = None
    stateful: bool | None = None
    pause_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Life:
    """A process from one start to the next.

    Attributes:
        harm: what is done to local stores before it starts, those of the apps that are killed in a restore.
        retries: whether Spark runs failed tasks again, as on a cluster; if not, a dead worker ends the app.
        kills: what happens to it, in this order. The last one ends it.
    """

    harm: Harm | None
    retries: bool
    kills: tuple[Kill, ...]


def lives(process: str, seed: int) -> Iterator[Life]:
    """The lives of a process, without end. Apps, points, victims and harms come in turn.

    A driver of several apps starts slowly and has few lives, so each of them meets more points: all of its apps
    restore, and the broker, whose death it outlives, dies at its points too.
    """
    rng = random.Random(f"{process}/{seed}")
    apps = PROCESSES[process]
    several = len(apps) > 1
    passed = [(app, point) for app in apps for point in POINTS[app] if point not in IN_RESTORE]
    rng.shuffle(passed)
    in_driver = [(app, point) for app, point in passed if point in IN_DRIVER]
    in_task = [(app, point) for app, point in passed if point not in IN_DRIVER]
    # A driver passes few points, and is killed only where the app ends.
    workers, drivers, fatal = cycle(in_task), cycle(in_driver), cycle(FATAL)
    # The broker dies first where a task reads.
    brokers = drivers if several else cycle(sorted(passed, key=lambda at: at[1] not in IN_READ))
    ends = drivers if several else chain.from_iterable(zip(drivers, drivers, cycle(in_task), strict=False))
    harms = cycle([None, *Harm] if process != _WITHOUT_STATE else [None])
    harmed = cycle(apps)
    for number, harm in enumerate(harms):
        kills: list[Kill] = []
        if harm is not None:
            restoring = IN_RESTORE[number % 2]
            if number // _HARMS % 2:
                # It dies while its stores are restored, and the next life goes on with that.
                yield Life(harm, retries=False, kills=(Kill(restoring, next(fatal), next(harmed), stateful=True),))
                continue
            victims = chain([Victim.WORKER if number % 3 else Victim.BROKER], repeat(Victim.WORKER))
            kills += [Kill(restoring, victim, app, stateful=True) for app, victim in zip(apps, victims, strict=False)]
        if number % 7 == 6:
            yield Life(harm, retries=False, kills=(_kill(*next(workers), Victim.WORKER, rng),))
            continue
        count = _WORKERS_OF_SEVERAL if several else _WORKERS
        kills += [_kill(*next(workers), Victim.WORKER, rng) for _ in range(count)]
        kills += [_kill(*next(brokers), Victim.BROKER, rng) for _ in range(2 if several else number % 2)]
        if number % 3 == 1:
            kills.append(Kill(Point.ANY, rng.choice((Victim.WORKER, Victim.BROKER)), pause_s=rng.uniform(0, 2)))
        if number % 5 == 3:
            kills.append(Kill(Point.ANY, next(fatal), pause_s=rng.uniform(0, 3)))
        else:
            kills.append(_kill(*next(ends), next(fatal), rng))
        yield Life(harm, retries=True, kills=tuple(kills))


def again(life: Life, missed: Sequence[Kill]) -> Life:
    """A life of the kills that another one has missed. They are of whichever task comes to their points first."""
    harm = life.harm if any(kill.point in IN_RESTORE for kill in missed) else None
    kills = tuple(replace(kill, partition=None, stateful=None) for kill in missed)
    return replace(life, harm=harm, kills=kills)


def coming_again(planned: Iterable[Life], missed: list[Life]) -> Iterator[Life]:
    """Planned lives, and before each those that are in `missed` by then, which it takes out of there."""
    for life in planned:
        due = list(missed)
        missed.clear()
        yield from (*due, life)


_WITHOUT_STATE = "hadoop_export"
_ONLY_STATE = ("careless", "ticks", "leaderboard", "order_location", "session_tracker")
"""All of their tasks have local stores."""
_FEW_KEYS = "ticks"
"""Not all of its partitions have records."""
_HARMS = len([None, *Harm])
_WORKERS, _WORKERS_OF_SEVERAL = 6, 10
"""Workers that die before a victim whose death ends the app: a start takes far longer than all of these."""


def _kill(app: str, point: Point, victim: Victim, rng: random.Random) -> Kill:
    pause_s = rng.choice((0.0, 0.0, 1.0))
    # The export writes only the few dead letters, and all of them may be of one partition.
    if point in IN_DRIVER or app == _WITHOUT_STATE:
        return Kill(point, victim, app, pause_s=pause_s)
    stateful = point in IN_STORE or app in _ONLY_STATE or rng.choice((True, False)) if point not in IN_READ else None
    partition = None if app == _FEW_KEYS else rng.choice((None, *range(4)))
    return Kill(point, victim, app, partition, stateful, pause_s)
