"""Commands that ask stores for rows, for windows and sessions of a time, and for ranks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storekeeper.cli.asking import Limit, Store, asks, not_found
from storekeeper.cli.output import (
    ListOption,
    ListOutput,
    origin,
    origin_sentence,
    say,
    write_json,
    write_rows,
    write_value,
)
from storekeeper.cli.times import TIMES, duration_option, time_option
from storekeeper.clock import SystemClock
from storekeeper.serdes.keys.windows import MAX_TIMESTAMP_MS

if TYPE_CHECKING:
    from storekeeper.client.client import StateClient
    from storekeeper.client.readings import Rank, Reading, Row, SessionRow
    from storekeeper.client.stores import RemoteKeyValueStore, RemoteSessionStore

AsOf = Annotated[str | None, typer.Option("--as-of", help=f"What there was at this time: {TIMES}.")]

_MOST_ROWS_OF_A_PAGE = 1000
_LAST_TEXT = "\U0010ffff" * 4
"""Sorts behind every other text, in UTF-8 too."""


@asks
def get(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; without it, rows in the order of their keys.")] = None,
    as_of: AsOf = None,
    lower: Annotated[str | None, typer.Option("--from", help="First key, included.")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="Last key, included.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only keys with this prefix.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="In descending order of keys.")] = False,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the value of a key, or rows in the order of their keys.

    Standard error says where a value comes from. Exit code 3: there is no such key, or no row.

    Example: storekeeper get rewards --prefix 00000000 --limit 20
    """
    bounds = [lower, upper, prefix, *(["--reverse"] if reverse else [])]
    if key is not None and any(bound is not None for bound in bounds):
        raise typer.BadParameter("goes with none of --from, --to, --prefix and --reverse", param_hint="KEY")
    if prefix is not None and (lower is not None or upper is not None or reverse):
        raise typer.BadParameter("goes with neither --from, --to nor --reverse", param_hint="--prefix")
    at_ms = _at(as_of)
    if key is None:
        rows = _rows(client.key_value(store), lower, upper, prefix, reverse=reverse, limit=limit, at_ms=at_ms)
        lines = ({"key": each, "value": value} for each, value in rows)
        _write_first(limit, lines, output, missing=f"store {store} has no row there")
    elif at_ms is None:
        reading = client.key_value(store).get(key)
        missing = f"store {store} has no key {key!r}"
        _write_one(reading, lambda value: {"key": key, "value": value}, write_value, output, missing)
    else:
        _get_as_of(client, store, key, at_ms, limit=limit, output=output)


def _at(as_of: str | None) -> int | None:
    """The time of `--as-of`."""
    return None if as_of is None else time_option(as_of, "--as-of", "")


def _get_as_of(client: StateClient, store: str, key: str, at_ms: int, *, limit: int, output: ListOutput) -> None:
    """Writes what a key had at a time: a value, a version, windows or sessions, as the store's kind says."""
    missing = f"store {store} had nothing of key {key!r} then"
    match {one["store"]: one["kind"] for one in client.stores()}.get(store):
        case "versioned":
            version = client.versioned(store).get(key, at_ms)
            missing = f"store {store} had no value of key {key!r} then, or its history does not go back so far"
            _write_one(version, asdict, lambda row: write_value(row.value), output, missing)
        case "window":
            windows = client.window(store).fetch(key, 0, MAX_TIMESTAMP_MS, as_of=at_ms)
            _write_first(limit, map(asdict, windows), output, missing=missing)
        case "session":
            sessions = client.session(store).find_sessions(key, as_of=at_ms)
            _write_first(limit, map(asdict, sessions), output, missing=missing)
        case _:
            reading = client.key_value(store).get(key, as_of=at_ms)
            _write_one(reading, lambda value: {"key": key, "value": value}, write_value, output, missing)


def _write_one(
    reading: Reading[Any],
    fields: Callable[[Any], dict[str, Any]],
    show: Callable[[Any], None],
    output: ListOutput,
    missing: str,
) -> None:
    """Writes what there is of a key, for people by `show`. Ends the program with exit code 3 if there is nothing."""
    if not reading.found:
        not_found(missing)
    value = reading.value  # None is a value: JSON has null
    if output is ListOutput.JSON:
        write_json({**fields(value), **origin(reading)})
        return
    if output is ListOutput.CSV:
        write_rows([fields(value)], output)
    else:
        show(value)
    say(origin_sentence(reading))


def _write_first(limit: int, lines: Iterable[dict[str, Any]], output: ListOutput, *, missing: str) -> None:
    """Writes the first rows, and says so if there are more. Ends the program with exit code 3 if there is none."""
    rows = iter(lines)
    if write_rows(islice(rows, limit), output) == 0:
        not_found(missing)
    if next(rows, None) is not None:
        say(f"the first {limit} rows: --limit shows more")


def _rows(
    store: RemoteKeyValueStore[StateClient],
    lower: str | None,
    upper: str | None,
    prefix: str | None,
    *,
    reverse: bool,
    limit: int,
    at_ms: int | None,
) -> Iterable[Row]:
    page_rows = min(limit, _MOST_ROWS_OF_A_PAGE)
    if prefix is not None:
        return store.prefix_scan(prefix, as_of=at_ms, page_rows=page_rows)
    if lower is None and upper is None:
        ask_all = store.reverse_all if reverse else store.all
        return ask_all(as_of=at_ms, page_rows=page_rows)
    ask = store.reverse_range if reverse else store.range
    return ask(lower or "", _LAST_TEXT if upper is None else upper, as_of=at_ms, page_rows=page_rows)


@asks
def rank(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; without it, the rows with the highest scores.")] = None,
    as_of: AsOf = None,
    limit: Limit = 10,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the ranking of a store, or the place of a key.

    Exit code 3: there is no such key.

    Example: storekeeper rank players --limit 10
    """
    ranked, at_ms = client.ranked(store), _at(as_of)
    if key is None:
        best = ranked.top(limit, as_of=at_ms)
        write_rows((asdict(row) for row in best.value), output)
        if output is ListOutput.TABLE:
            say(origin_sentence(best))
        return
    missing = f"store {store} has no key {key!r}"
    _write_one(ranked.rank(key, as_of=at_ms), asdict, _show_place, output, missing)


def _show_place(place: Rank) -> None:
    typer.echo(f"{place.rank} of {place.of}, score {place.score}")


@asks
def fetch(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; all keys without it.")] = None,
    lower: Annotated[str | None, typer.Option("--from", help=f"From this time on: {TIMES}.")] = None,
    upper: Annotated[str | None, typer.Option("--to", help=f"Until this time, included: {TIMES}.")] = None,
    active: Annotated[
        str | None,
        typer.Option("--active", metavar="GAP", help="Only sessions that a record would still extend: 30m, say."),
    ] = None,
    as_of: AsOf = None,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the windows or the sessions of a key, or of a time.

    By default windows that start in the last day, all sessions of a key, and of all keys those that ended in the last
    day. Exit code 3: there are none.

    Example: storekeeper fetch sales STR1534 --from -1h --to now
    """
    if active is not None and (key is not None or lower is not None or upper is not None):
        raise typer.BadParameter("goes with neither a key nor a time", param_hint="--active")
    at_ms = _at(as_of)
    if active is not None or {one["store"]: one["kind"] for one in client.stores()}.get(store) == "session":
        rows: Iterable[Any] = _sessions(client.session(store), key, lower, upper, active=active, at_ms=at_ms)
        missing = f"store {store} has no session there"
    else:
        windows, times = client.window(store), (time_option(lower, "--from", "-1d"), time_option(upper, "--to", "now"))
        rows = windows.fetch_all(*times, as_of=at_ms) if key is None else windows.fetch(key, *times, as_of=at_ms)
        missing = f"store {store} has no window there"
    _write_first(limit, map(asdict, rows), output, missing=missing)


def _sessions(
    store: RemoteSessionStore[StateClient],
    key: str | None,
    lower: str | None,
    upper: str | None,
    *,
    active: str | None,
    at_ms: int | None,
) -> Iterable[SessionRow]:
    if active is not None:
        seen_ms = SystemClock().now_ms() if at_ms is None else at_ms
        return store.active(seen_ms, duration_option(active, "--active"), as_of=at_ms)
    if key is None:
        return store.ended(time_option(lower, "--from", "-1d"), time_option(upper, "--to", "now"), as_of=at_ms)
    from_ms = None if lower is None else time_option(lower, "--from", "")
    to_ms = None if upper is None else time_option(upper, "--to", "")
    return store.find_sessions(key, from_ms, to_ms, as_of=at_ms)
