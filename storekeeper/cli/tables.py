"""`tables`: the Delta tables, one of them in full, and their entries in a catalogue."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from storekeeper.cli.output import AnswerOutput, ListOption, ListOutput, no_table_in, say, write_answer, write_rows
from storekeeper.clock import SystemClock
from storekeeper.ops.settings import PlatformSettings

_SHOWN = ("table", "rows", "version", "made_at_ms", "age", "verified", "checked", "error")
_MOST_VERSIONS = 20


def tables(  # noqa: PLR0917 - each is an option of its own
    table: Annotated[
        str | None, typer.Argument(help="A table, to show its columns and versions; all without it.")
    ] = None,
    versions: Annotated[int, typer.Option(min=1, help="How many versions of the table to show.")] = _MOST_VERSIONS,
    register: Annotated[
        bool,
        typer.Option("--register", help="Enter all tables in a catalogue, so that other programs find them by name."),
    ] = False,
    schema: Annotated[
        str | None, typer.Option(help="Schema of the entries; in Spark's catalogue by default its default one.")
    ] = None,
    unity: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Unity Catalog, http(s)://host:port, not Spark's catalogue."),
    ] = None,
    token_file: Annotated[Path | None, typer.Option(help="File with the token for Unity Catalog.")] = None,
    output: ListOption = ListOutput.TABLE,
) -> None:
    """List the Delta tables, or show one.

    Each with its rows, its newest version, its age, and the last verdicts; a table in full with its columns, their
    comments, and its versions. --register moves no data: it is Spark's catalogue, which the properties of [spark]
    name, or Unity Catalog.

    Example: storekeeper tables rewards
    """
    if not register and (schema, unity, token_file) != (None, None, None):
        raise typer.BadParameter("is missing, which the other options are for", param_hint="--register")
    if register:
        if table is not None:
            raise typer.BadParameter("goes with all tables: name none", param_hint="--register")
        _write(_registered(schema, unity, token_file), output)
        return
    settings, now_ms = PlatformSettings.of_platform(), SystemClock().now_ms()
    from storekeeper.ops.overview.delta_tables import list_of_tables, table_in_full  # noqa: PLC0415 (loads Delta)

    if table is None:
        rows = list(list_of_tables(settings.tables, settings.run_dir, now_ms))
        there = [name for name in _SHOWN if any(row.get(name) is not None for row in rows)]
        if not write_rows(rows, output, there if output is ListOutput.TABLE else None):
            say(no_table_in(settings.tables))
    else:
        found = table_in_full(settings.tables / table, settings.run_dir, now_ms, versions)
        if output is ListOutput.CSV:
            write_rows(found["versions"], output)
        else:
            _write(found, output)


def _write(answer: dict[str, Any], output: ListOutput) -> None:
    if output is ListOutput.CSV:
        write_rows([answer], output)
    else:
        write_answer(answer, AnswerOutput(output))


def _registered(schema: str | None, unity: str | None, token_file: Path | None) -> dict[str, Any]:
    from storekeeper.apps.priority import begin_job  # noqa: PLC0415 (loads the apps)
    from storekeeper.apps.settings import AppSettings  # noqa: PLC0415
    from storekeeper.generations.live import live_stores  # noqa: PLC0415

    begin_job()
    settings = AppSettings.of_platform()
    stores = live_stores(settings)
    if unity is None:
        from storekeeper.snapshots.catalogue.registration import register_tables  # noqa: PLC0415 (loads Spark)

        return register_tables(settings, stores, schema, SystemClock())
    from storekeeper.client.credentials import Credentials  # noqa: PLC0415
    from storekeeper.snapshots.catalogue.unity import register_in_unity  # noqa: PLC0415

    credentials = Credentials(token_file=token_file)
    return register_in_unity(settings, stores, unity, schema, credentials=credentials, clock=SystemClock())
