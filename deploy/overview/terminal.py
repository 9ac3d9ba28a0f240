"""The glance as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from deploy.overview.glance import Glance
from deploy.overview.words import age, count

_RIGHT = frozenset({"batch", "rows/s", "batch ms", "behind", "dead letters", "state rows", "entries", "rows"})


def picture(glance: Glance) -> RenderableType:
    """One look as tables."""
    parts: list[RenderableType] = [_apps(glance), _stores(glance), _nodes(glance)]
    if glance.unreachable is not None:
        parts.append(Text(glance.unreachable, style="red"))
    parts += [Text(f"{app.app}: {app.error}", style="red") for app in glance.apps if app.error]
    if glance.verdicts:
        parts.append(_verdicts(glance))
    return Group(*parts)


def _apps(glance: Glance) -> Table:
    columns = ("app", "state", "batch", "rows/s", "batch ms", "behind", "last batch", "dead letters", "state rows")
    return _table(
        "Stream apps",
        columns,
        (
            (
                app.app, _good(app.state, app.healthy), count(app.batch_id), count(app.input_rows_per_second),
                count(app.batch_duration_ms), count(app.lag_records), age(app.idle_ms), count(app.dead_letters),
                count(app.state_rows),
            )
            for app in glance.apps
        ),
    )  # fmt: skip


def _stores(glance: Glance) -> Table:
    return _table(
        "State stores",
        ("store", "kind", "entries", "replicas that serve", "behind", "snapshot"),
        (
            (
                store.store, store.kind, count(store.entries),
                _good(f"{store.serving} of {store.replicas}", store.serving == store.replicas > 0),
                count(store.lag_records), age(store.snapshot_age_ms),
            )
            for store in glance.stores
        ),
    )  # fmt: skip


def _nodes(glance: Glance) -> Table:
    return _table(
        "Query nodes",
        ("node", "address", "replicas that serve", "says"),
        (
            (
                node.node, node.address, f"{node.serving} of {node.replicas}",
                _good("does not answer" if node.error else "answers", node.error is None),
            )
            for node in glance.nodes
        ),
    )  # fmt: skip


def _verdicts(glance: Glance) -> Table:
    return _table(
        "Quality gate",
        ("table", "verdict", "rows", "decided"),
        (
            (one.table, _good("passed" if one.passed else "quarantined", one.passed), count(one.rows), age(one.age_ms))
            for one in glance.verdicts
        ),
    )


def _good(words: str, good: bool) -> Text:
    return Text(words, style="green" if good else "bold red")


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str | Text]]) -> Table:
    table = Table(title=title, title_justify="left", expand=False)
    for column in columns:
        # A narrow terminal breaks titles, never what a row is about.
        table.add_column(column, justify="right" if column in _RIGHT else "left", no_wrap=column == columns[0])
    for row in rows:
        table.add_row(*row)
    return table
