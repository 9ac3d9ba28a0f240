"""The overview as tables of words: what Airflow's page shows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from storekeeper.engine.runtime.heartbeat import AppState
from storekeeper.ops.overview.model import App, LastVerdict, Overview, Process, Store
from storekeeper.quality.resolution import Action

_UNITS = ((86_400_000, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s"))
_ON_THE_WAY = frozenset({AppState.STOPPED, AppState.STARTING, AppState.STOPPING, AppState.PAUSED})
"""States that are neither good nor bad: somebody wanted them, or they pass."""


class Severity(StrEnum):
    """Whether what a cell says is good, bad or neither."""

    GOOD = "good"
    BAD = "bad"
    NEITHER = ""


@dataclass(frozen=True, slots=True)
class Cell:
    """One cell. `link` is where it leads, relative to the page or an address; empty if nowhere."""

    words: str
    severity: Severity = Severity.NEITHER
    link: str = ""


@dataclass(frozen=True, slots=True)
class Column:
    """A column. It may hold numbers, or sentences (`prose`)."""

    title: str
    number: bool = False
    prose: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """A table. The first column names the row. `name` says what the rows are, in the plural. A row has a cell for each
    column.
    """

    name: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]


def tables(view: Overview) -> tuple[Table, ...]:
    """All tables, the same ones each time."""
    return _apps(view), _stores(view), _nodes(view), _verdicts(view), _processes(view)


def summary(view: Overview) -> str:
    """How much there is, and how much of it is unhealthy."""
    unhealthy = sum(1 for app in view.apps if severity(app) is Severity.BAD)
    silent = sum(1 for node in view.nodes if node.error is not None)
    parts = [_counted(len(view.stores), "store"), _counted(len(view.apps), "app"), _counted(len(view.nodes), "node")]
    if unhealthy:
        parts.append(f"{_counted(unhealthy, 'app')} {'is' if unhealthy == 1 else 'are'} unhealthy")
    if silent:
        parts.append(f"{_counted(silent, 'node')} {'is' if silent == 1 else 'are'} silent")
    return ", ".join(parts)


def _counted(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def severity(app: App) -> Severity:
    """Whether an app is well; neither while it starts, stops, pauses or is stopped."""
    if app.problem is None:
        return Severity.GOOD
    return Severity.NEITHER if app.state in _ON_THE_WAY else Severity.BAD


def age(milliseconds: int | None) -> str:
    """`3 min` for a time that long; a dash for None."""
    if milliseconds is None:
        return "-"
    return next((f"{milliseconds // size} {unit}" for size, unit in _UNITS if milliseconds >= size), "now")


def count(number: float | None) -> str:
    """`12,345`; a dash for None."""
    return "-" if number is None else f"{number:,.0f}"


def _apps(view: Overview) -> Table:
    columns = (
        Column("app"), Column("state"), Column("generation"),
        Column("batch", number=True), Column("rows/s", number=True),
        Column("batch ms", number=True), Column("behind", number=True), Column("last batch"),
        Column("dead letters", number=True), Column("left out", number=True),
        Column("says", prose=True),
    )  # fmt: skip
    return _table("apps", columns, [_app(app, view.topologies) for app in view.apps])


def _app(app: App, topologies: Collection[str]) -> Sequence[str | Cell]:
    link = f"topology/{app.name}" if app.name in topologies else ""
    name, state, beat = Cell(app.name, link=link), Cell(app.state, severity(app)), app.beat
    if beat is None:
        return (name, state, *["-"] * 8, _notes_of(app))
    return (
        name, state, f"{beat.generation} {app.role}".rstrip(), count(beat.batch_id), count(app.rows_per_second),
        count(beat.batch_duration_ms), count(app.lag_records), _last_batch(app), count(beat.dead_letters_total),
        count(beat.dropped_total), _notes_of(app),
    )  # fmt: skip


def _last_batch(app: App) -> str:
    if app.last_batch_age_ms is None and app.up_ms is not None:
        return f"none in {age(app.up_ms)}"
    return age(app.last_batch_age_ms)


def _notes_of(app: App) -> str:
    error = app.beat.error if app.beat is not None else None
    return "; ".join(filter(None, (error or app.restoring, app.change)))


def _stores(view: Overview) -> Table:
    columns = (
        Column("store"), Column("kind"), Column("serving"),
        Column("behind", number=True), Column("snapshot"), Column("rows in it", number=True),
        Column("changelog"),
    )  # fmt: skip
    return _table(
        "stores",
        columns,
        (
            (
                store.store, store.kind,
                _serving(store),
                count(store.lag_records), age(store.snapshot_age_ms), count(store.snapshot_rows), store.topic,
            )
            for store in view.stores
        ),
    )  # fmt: skip


def _serving(store: Store) -> Cell:
    """Replicas that serve, of those that should. A node that didn't answer may serve: nothing is said to be missing."""
    if not store.all_known:
        return Cell(f"at least {store.serving}")
    return Cell(f"{store.serving} of {store.replicas}", _good(store.serving == store.replicas > 0))


def _nodes(view: Overview) -> Table:
    return _table(
        "nodes",
        (Column("node"), Column("address"), Column("serving"), Column("state"), Column("says", prose=True)),
        (
            (
                node.node, Cell(node.address, link=node.address),
                "-" if node.replicas is None else f"{node.serving} of {node.replicas}",
                Cell(node.state, _good(node.error is None)), node.error or "",
            )
            for node in view.nodes
        ),
    )  # fmt: skip


def _verdicts(view: Overview) -> Table:
    return _table(
        "verdicts",
        (Column("table"), Column("last batch"), Column("rows", number=True), Column("decided")),
        (
            (
                one.verdict.table, _outcome(one), count(one.verdict.rows),
                age(max(0, view.at_ms - one.verdict.decided_at_ms)),
            )
            for one in view.verdicts
        ),
    )  # fmt: skip


def _outcome(one: LastVerdict) -> Cell:
    how = Severity.NEITHER if one.outcome == Action.DISCARDED else _good(not one.is_open)
    return Cell(one.outcome, how, link=f"data_docs/{one.verdict.table}/index.html")


def _processes(view: Overview) -> Table:
    """The processes that are not well, and those that have ended by themselves."""
    return _table(
        "processes",
        (Column("process"), Column("state"), Column("exits", number=True), Column("last exit"), Column("ago"),
         Column("says", prose=True)),
        (
            (
                one.name, Cell(one.state, _of_process(one)), count(one.exits), one.last_exit or "-",
                age(one.last_exit_age_ms), one.detail,
            )
            for one in view.processes
            if one.exits or not one.healthy
        ),
    )  # fmt: skip


def _of_process(process: Process) -> Severity:
    return Severity.NEITHER if process.state == AppState.STOPPED else _good(process.healthy)


def _good(good: bool) -> Severity:
    return Severity.GOOD if good else Severity.BAD


def _table(name: str, columns: Sequence[Column], rows: Iterable[Sequence[str | Cell]]) -> Table:
    return Table(name, columns, [[Cell(one) if isinstance(one, str) else one for one in row] for row in rows])
