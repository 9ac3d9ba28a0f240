"""The glance as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.overview.glance import AppGlance, Glance, VerdictGlance
from deploy.overview.words import about, age, count
from quality.resolution import Action
from spark_apps.runtime.heartbeat import AppState

_RIGHT = frozenset({"batch", "rows/s", "batch ms", "behind", "dead letters", "left out", "entries", "rows", "times"})


def picture(glance: Glance) -> RenderableType:
    """One look as tables."""
    parts: list[RenderableType] = [_apps(glance), _stores(glance), _nodes(glance)]
    if glance.unreachable is not None:
        parts.append(Text(glance.unreachable, style="red"))
    parts += [Text(f"{app.app}: {app.error}", style="red") for app in glance.apps if app.error]
    parts += [Text(f"{app.app} {app.restoring}") for app in glance.apps if app.restoring]
    parts += [Text(f"{node.node}: {node.error}", style="red") for node in glance.nodes if node.error]
    if glance.verdicts:
        parts.append(_verdicts(glance))
    if glance.exits:
        parts.append(_exits(glance))
    return Group(*parts)


def _apps(glance: Glance) -> Table:
    columns = ("app", "state", "batch", "rows/s", "batch ms", "behind", "last batch", "dead letters", "left out")
    return _table(
        "Stream apps",
        columns,
        (
            (
                app.app, _state(app), count(app.batch_id), count(app.input_rows_per_second),
                count(app.batch_duration_ms), count(app.lag_records), _last_batch(app), count(app.dead_letters),
                count(app.dropped),
            )
            for app in glance.apps
        ),
    )  # fmt: skip


def _state(app: AppGlance) -> Text:
    return Text(app.state) if app.state == AppState.STOPPED else _good(app.state, app.healthy)


def _last_batch(app: AppGlance) -> str:
    if app.last_batch_age_ms is None and app.up_ms is not None:
        return f"none in {age(app.up_ms)}"
    return age(app.last_batch_age_ms)


def _stores(glance: Glance) -> Table:
    return _table(
        "State stores (entries: estimates; rows of a snapshot: counted)",
        ("store", "kind", "entries", "replicas that serve", "behind", "snapshot", "rows"),
        (
            (
                store.store, store.kind, about(store.estimated_entries),
                _good(f"{store.serving} of {store.replicas}", store.serving == store.replicas > 0),
                count(store.lag_records), age(store.snapshot_age_ms), count(store.snapshot_rows),
            )
            for store in glance.stores
        ),
    )  # fmt: skip


def _nodes(glance: Glance) -> Table:
    return _table(
        "Query nodes",
        ("node", "address", "replicas that serve", "state"),
        (
            (
                node.node, node.address, "-" if node.replicas is None else f"{node.serving} of {node.replicas}",
                _good(node.state, node.error is None),
            )
            for node in glance.nodes
        ),
    )  # fmt: skip


def _verdicts(glance: Glance) -> Table:
    return _table(
        "Quality gate",
        ("table", "last batch", "rows", "decided"),
        (
            (one.table, _outcome(one), count(one.rows), age(one.age_ms))
            for one in glance.verdicts
        ),
    )  # fmt: skip


def _outcome(one: VerdictGlance) -> Text:
    return Text(one.outcome) if one.outcome == Action.DISCARDED else _good(one.outcome, not one.open)


def _exits(glance: Glance) -> Table:
    return _table(
        "Processes that ended by themselves",
        ("process", "times", "last", "ago"),
        ((one.process, count(one.count), one.last, age(one.age_ms)) for one in glance.exits),
    )


def _good(words: str, good: bool) -> Text:
    return Text(words, style="green" if good else "bold red")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    table = Table(title=title, title_justify="left", expand=False)
    for column in columns:
        # A narrow terminal may wrap every column but the first, which names the row.
        table.add_column(column, justify="right" if column in _RIGHT else "left", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*row)
    return table
