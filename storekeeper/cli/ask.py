"""Commands that ask stores for rows, for windows and sessions of a time, and for ranks."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import typer

from storekeeper.cli.asking import Limit, Store, asks, not_found
from storekeeper.cli.output import (
    AnswerOption,
    AnswerOutput,
    ListOption,
    ListOutput,
    origin,
    origin_sentence,
    say,
    write_json,
    write_rows,
    write_value,
)
from storekeeper.clock import SystemClock

if TYPE_CHECKING:
    from storekeeper.client.client import StateClient
    from storekeeper.client.readings import Row
    from storekeeper.client.stores import RemoteKeyValueStore

_MOST_ROWS_OF_A_PAGE = 1000
_TIMES = "epoch ms, ISO 8601, now, or -15m, -1h, -2d"
_LAST_TEXT = "\U0010ffff" * 4
"""Sorts behind every other text, in UTF-8 too."""


@asks
def get(
    client: StateClient,
    store: Store,
    key: Annotated[str, typer.Argument(help="The key.")],
    as_of: Annotated[
        str | None, typer.Option("--as-of", help=f"The value at this time, in a versioned store: {_TIMES}.")
    ] = None,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Show the value of one key.

    Standard error says where the value comes from. Exit code 3: there is no such key.

    Example: storekeeper get rewards 0000000042
    """
    if as_of is not None:
        _get_as_of(client, store, key, time_option(as_of, "--as-of", ""), output)
        return
    reading = client.key_value(store).get(key)
    if reading.value is None:
        not_found(f"store {store} has no key {key!r}")
    if output is AnswerOutput.JSON:
        write_json({"key": key, "value": reading.value, **origin(reading)})
        return
    write_value(reading.value)
    say(origin_sentence(reading))


def _get_as_of(client: StateClient, store: str, key: str, as_of_ms: int, output: AnswerOutput) -> None:
    reading = client.versioned(store).get(key, as_of_ms)
    if reading.value is None:
        not_found(f"store {store} had no value of key {key!r} then, or its history does not go back so far")
    if output is AnswerOutput.JSON:
        write_json({**asdict(reading.value), **origin(reading)})
        return
    write_value(reading.value.value)
    say(origin_sentence(reading))


@asks
def scan(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    lower: Annotated[str | None, typer.Option("--from", help="First key, included.")] = None,
    upper: Annotated[str | None, typer.Option("--to", help="Last key, included.")] = None,
    prefix: Annotated[str | None, typer.Option("--prefix", help="Only keys with this prefix.")] = None,
    reverse: Annotated[bool, typer.Option("--reverse", help="In descending order of keys.")] = False,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show rows in the order of their keys.

    Exit code 3: there is no row.

    Example: storekeeper scan rewards --prefix 00000000 --limit 20
    """
    if prefix is not None and (lower is not None or upper is not None or reverse):
        raise typer.BadParameter("goes with neither --from, --to nor --reverse", param_hint="--prefix")
    rows = _rows(client.key_value(store), lower, upper, prefix, reverse=reverse, limit=limit)
    lines = ({"key": key, "value": value} for key, value in rows)
    _write_first(limit, lines, output, missing=f"store {store} has no row there")


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
) -> Iterable[Row]:
    page_rows = min(limit, _MOST_ROWS_OF_A_PAGE)
    if prefix is not None:
        return store.prefix_scan(prefix, page_rows=page_rows)
    if lower is None and upper is None:
        return store.reverse_all(page_rows=page_rows) if reverse else store.all(page_rows=page_rows)
    ask = store.reverse_range if reverse else store.range
    return ask(lower or "", _LAST_TEXT if upper is None else upper, page_rows=page_rows)


@asks
def top(
    client: StateClient,
    store: Store,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many rows.")] = 10,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the rows with the highest scores.

    Example: storekeeper top players -n 10
    """
    reading = client.ranked(store).top(count)
    write_rows((asdict(row) for row in reading.value), output)
    if output is ListOutput.TABLE:
        say(origin_sentence(reading))


@asks
def rank(
    client: StateClient,
    store: Store,
    key: Annotated[str, typer.Argument(help="The key.")],
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Show the place of a key.

    Exit code 3: there is no such key.

    Example: storekeeper rank players 4711
    """
    reading = client.ranked(store).rank(key)
    if reading.value is None:
        not_found(f"store {store} has no key {key!r}")
    if output is AnswerOutput.JSON:
        write_json({**asdict(reading.value), **origin(reading)})
        return
    typer.echo(f"{reading.value.rank} of {reading.value.of}, score {reading.value.score}")
    say(origin_sentence(reading))


From = Annotated[str | None, typer.Option("--from", help=f"From this time on: {_TIMES}.")]
To = Annotated[str | None, typer.Option("--to", help=f"Until this time, included: {_TIMES}.")]


@asks
def fetch(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; all keys without it.")] = None,
    lower: From = None,
    upper: To = None,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the windows of a key.

    By default the windows that start in the last day. Exit code 3: there are none.

    Example: storekeeper fetch sales STR1534 --from -1h --to now
    """
    from_ms, to_ms = time_option(lower, "--from", "-1d"), time_option(upper, "--to", "now")
    windows = client.window(store)
    windowed = windows.fetch_all(from_ms, to_ms) if key is None else windows.fetch(key, from_ms, to_ms)
    _write_first(limit, map(asdict, windowed), output, missing=f"store {store} has no window there")


@asks
def sessions(  # noqa: PLR0917 - each is an option of its own
    client: StateClient,
    store: Store,
    key: Annotated[str | None, typer.Argument(help="The key; all keys without it.")] = None,
    active: Annotated[
        bool, typer.Option("--active", help="Only sessions that a record would still extend now.")
    ] = False,
    lower: From = None,
    upper: To = None,
    limit: Limit = 100,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """Show the sessions of a key or of a time.

    Without a key: those that ended in the last day. Exit code 3: there are none.

    Example: storekeeper sessions user-sessions --active
    """
    store_of = client.session(store)
    if active:
        if key is not None or lower is not None or upper is not None:
            raise typer.BadParameter("goes with neither a key nor a time", param_hint="--active")
        rows = store_of.active()
    elif key is not None:
        from_ms = None if lower is None else time_option(lower, "--from", "")
        to_ms = None if upper is None else time_option(upper, "--to", "")
        rows = store_of.find_sessions(key, from_ms, to_ms)
    else:
        rows = store_of.ended(time_option(lower, "--from", "-1d"), time_option(upper, "--to", "now"))
    _write_first(limit, map(asdict, rows), output, missing=f"store {store} has no session there")


_UNIT_MS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_AGO = re.compile(r"-(\d{1,9})([smhd])")


def parse_time(text: str, now_ms: int) -> int:
    """The epoch milliseconds that a text means. A time without a zone is UTC.

    Raises:
        ValueError: if it is not a time; the message is a sentence that names the forms.
    """
    if text == "now":
        return now_ms
    if text.isascii() and text.isdigit() and len(text) > 4:
        return int(text)
    ago = _AGO.fullmatch(text)
    if ago is not None:
        return max(0, now_ms - int(ago[1]) * _UNIT_MS[ago[2]])
    try:
        at = datetime.fromisoformat(text)
        return max(0, round(at.replace(tzinfo=at.tzinfo or UTC).timestamp() * 1000))
    except (ValueError, OverflowError) as error:
        msg = f"{text!r} is not a time: write epoch milliseconds, 2026-01-31T18:00:00Z, now, or -15m, -1h, -2d"
        raise ValueError(msg) from error


def time_option(text: str | None, option: str, default: str) -> int:
    """The value of a time option.

    Raises:
        typer.BadParameter: if it is not a time.
    """
    try:
        return parse_time(default if text is None else text, SystemClock().now_ms())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error
