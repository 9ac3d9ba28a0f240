"""Commands that take snapshots and look after their tables. Delta is loaded when a command needs it."""

from __future__ import annotations

from typing import Annotated

import typer

from storekeeper.apps.priority import begin_job
from storekeeper.apps.settings import AppSettings, SnapshotSettings
from storekeeper.cli.output import AnswerOption, AnswerOutput, write_answer
from storekeeper.clock import SystemClock
from storekeeper.errors import ConfigurationError
from storekeeper.generations.live import live_from, live_store, store_in

snapshot_commands = typer.Typer(
    help="Write and maintain the Delta tables of stores.", no_args_is_help=True, rich_markup_mode=None
)

Store = Annotated[str, typer.Argument(help="The store's name.")]


_SHOWN_OF_SNAPSHOT = ("store", "generation", "delta_version", "committed", "row_count", "changed_keys", "duration_ms")


@snapshot_commands.command()
def create(
    stores: Annotated[list[str], typer.Argument(help="The stores' names.")],
    *,
    when_due: Annotated[
        bool, typer.Option("--when-due", help="Write tables only if they are an hour behind; histories always go on.")
    ] = False,
    output: AnswerOption = AnswerOutput.TABLE,
) -> None:
    """Bring tables up to their app's last committed batch.

    Several stores must be of one app. Their tables end at the same batch.

    Example: storekeeper snapshot create rewards
    """
    begin_job()
    stores, base = list(dict.fromkeys(stores)), AppSettings.of_platform()  # a process can't hold a lease twice
    live = [live_store(store, base) for store in stores]
    specs, settings = [spec for spec, _ in live], live[0][1]
    if len({spec.app for spec in specs}) > 1:
        msg = f"{' and '.join(stores)} are stores of several apps, which have batches of their own: name those of one"
        raise ConfigurationError(msg)
    from storekeeper.snapshots.job import take_snapshots  # noqa: PLC0415 (loads Delta)

    since = live_from(specs[0], settings)
    summaries = take_snapshots(specs, settings, SystemClock(), live_from=since, when_due=when_due)
    shown = {spec.name: summary.as_dict() for spec, summary in zip(specs, summaries, strict=True)}
    write_answer(
        shown[stores[0]] if len(shown) == 1 else {"store": ",".join(stores), "stores": shown},
        output,
        {"snapshots": [{field: summary[field] for field in _SHOWN_OF_SNAPSHOT} for summary in shown.values()]},
    )


@snapshot_commands.command()
def restore(store: Store, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Restore a table to its last snapshot.

    For a table that another program has written to. It is Delta's RESTORE: the versions since stay readable. A table
    that is sound is left alone.

    Example: storekeeper snapshot restore rewards
    """
    begin_job()
    from storekeeper.snapshots.table_restore import restored  # noqa: PLC0415 (loads Delta)

    settings = AppSettings.of_platform()
    spec, _ = live_store(store, settings)
    write_answer(restored(spec, lambda manifest: store_in(manifest, spec, settings), settings), output)


@snapshot_commands.command()
def optimize(store: Store, output: AnswerOption = AnswerOutput.TABLE) -> None:
    """Join small files of a table and remove old ones.

    Every promised version stays readable. Archives of the store's clean-ups go once these can't be undone any more.

    Example: storekeeper snapshot optimize rewards
    """
    begin_job()
    from storekeeper.cleanup.folder import CleanupFolder  # noqa: PLC0415 (loads Parquet)
    from storekeeper.snapshots.table_upkeep import optimized  # noqa: PLC0415 (loads Delta)

    settings = SnapshotSettings.of_platform()
    spec, _ = live_store(store, settings)
    done = optimized(store, lambda manifest: store_in(manifest, spec, settings), settings)
    forgotten = CleanupFolder(settings.durable / "cleanups" / store, store).forget_old(SystemClock().now_ms())
    write_answer({**done, "forgotten_cleanups": forgotten}, output)
