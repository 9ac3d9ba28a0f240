"""`history` and `diff`: what became of a key, and how the rows of two times differ. They read tables, not nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storekeeper.cli.asking import Limit, Store, not_found
from storekeeper.cli.output import ListOption, ListOutput, is_time, say, write_rows
from storekeeper.cli.times import TIMES, time_option
from storekeeper.errors import InvalidArgumentError
from storekeeper.ops.settings import PlatformSettings
from storekeeper.snapshots.as_of import distinct_names, iso_ms

if TYPE_CHECKING:
    from storekeeper.snapshots.differences import Difference, RowDifference, Total
    from storekeeper.snapshots.history_reads import StoreHistory
    from storekeeper.snapshots.key_changes import Change


def history(
    store: Store,
    key: Annotated[str, typer.Argument(help="The key; of windows and sessions all rows of it.")],
    sources: Annotated[
        bool, typer.Option("--sources", help="Also show how far the app had read its sources when it was noted.")
    ] = False,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the changes of a key, the newest first.

    Each has its time, the values, the batch that made it, and its place in the changelog. Exit code 3: the key never
    had a row.

    Example: storekeeper history rewards 4836051607
    """
    from storekeeper.snapshots.as_of import value_columns  # noqa: PLC0415
    from storekeeper.snapshots.key_changes import changes_of_key  # noqa: PLC0415 (loads Delta)

    found = _history_of(store)
    changes = changes_of_key(found, key.encode(), most=limit + 1)
    if not changes:
        not_found(f"store {store} never had a row of key {key!r} since its history begins")
    columns = value_columns(found.columns) or ["value"]
    rows = (_row_of(change, columns) for change in changes[:limit])
    write_rows(_with_sources(found, changes[:limit], rows) if sources else rows, output)
    if len(changes) > limit:
        say(f"the newest {limit} changes: --limit shows more")


def diff(  # noqa: PLR0917 - each is an option of its own
    store: Store,
    since: Annotated[str, typer.Argument(metavar="T1", help=f"The first time: {TIMES}.")],
    until: Annotated[
        str | None, typer.Argument(metavar="[T2]", help="The second time; by default the latest in the history.")
    ] = None,
    key: Annotated[str | None, typer.Option("--key", help="Only the rows of this key.")] = None,
    totals: Annotated[
        bool,
        typer.Option("--totals", help="The number of rows, and the sum of each column of numbers but times, instead."),
    ] = False,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Compare the rows of two times.

    Without the second one, it is that of the newest rows in the history. Exit code 3: they do not differ.

    Example: storekeeper diff rewards -1d
    """
    from storekeeper.snapshots.differences import difference  # noqa: PLC0415 (loads Delta)

    known = _history_of(store)
    from_ms = time_option(since, "T1", "")
    to_ms = known.coverage.last if until is None else time_option(until, "T2", "")
    found = difference(known, from_ms, to_ms, most=limit, key=None if key is None else key.encode())
    if until is None:
        say(f"the second time is {iso_ms(to_ms)}, the latest that the history knows")
    if totals:
        write_rows(({**asdict(one), "difference": one.difference} for one in _sums_of(found)), output)
        return
    if not found.counts:
        not_found(f"the rows of store {store} are the same at both times")
    write_rows(map(_json_of if output is ListOutput.JSON else _sides_of, found.rows), output)
    say(_told(found, limit))


def _history_of(store: str) -> StoreHistory:
    from storekeeper.snapshots.history_reads import StoreHistory  # noqa: PLC0415 (loads Delta)

    tables = PlatformSettings.of_platform().tables
    found = StoreHistory.beside(tables / store)
    if found is None:
        msg = f"there is no history of a store {store[:140]!r} in {tables}: `storekeeper snapshot create` begins one"
        raise InvalidArgumentError(msg)
    return found


def _row_of(change: Change, columns: Sequence[str]) -> dict[str, Any]:
    fields = dict.fromkeys(columns) if change.fields is None else change.fields
    what = "deleted" if change.fields is None else "written"
    place = {name: getattr(change, name) for name in ("batch", "generation", "partition", "offset")}
    shown = {"changed_at_ms": change.at_ms, **change.row, "change": what}
    names = distinct_names([*shown, *place], [*fields])
    return {**shown, **{names[name]: value for name, value in fields.items()}, **place}


def _with_sources(
    history: StoreHistory, changes: list[Change], rows: Iterator[dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """The rows with the position of the sources; empty where the table's log does not go back so far."""
    positions = history.source_positions(min(change.at_ms for change in changes))
    for change, row in zip(changes, rows, strict=True):
        reached = next((sources for until_ms, sources in positions if change.at_ms <= until_ms), None)
        yield {**row, "sources": reached}


def _json_of(one: RowDifference) -> dict[str, Any]:
    return {**one.row, "change": one.change, "before": one.before, "after": one.after}


def _sides_of(one: RowDifference) -> dict[str, Any]:
    """Both sides in one row: a column that is the same in both is there once."""
    before, after = one.before or {}, one.after or {}
    shown: dict[str, Any] = {**one.row, "change": one.change}
    for name in before | after:
        shown[f"{name} before"], shown[f"{name} after"] = before.get(name), after.get(name)
    return shown


def _sums_of(found: Difference) -> list[Total]:
    """The totals that mean something: a sum of times does not."""
    return [one for one in found.totals if not is_time(one.of)]


def _told(found: Difference, limit: int) -> str:
    counts = ", ".join(f"{number} {change}" for change, number in found.counts.items())
    sums = "; ".join(f"{one.of} {one.before or 0} to {one.after or 0} ({one.difference:+})" for one in _sums_of(found))
    differing = sum(found.counts.values())
    more = f"; the first {limit} are shown: --limit shows more" if differing > limit else ""
    return f"{counts}; {sums}{more}"
