"""`storekeeper skipped`: the records of a store's changelog that are not rows, and what removes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.scan import Changelog
from storekeeper.changelog.skipped import SkipReason
from storekeeper.cli.output import ListOption, ListOutput, say, write_rows
from storekeeper.generations.live import live_store

_COLUMNS = ("topic", "partition", "offset", "timestamp_ms", "reason")
_WITH_KEY = (
    "Stop what writes them. Then let the app write their keys again, or write a tombstone for each key: the keys have "
    "no rows already, and compaction removes the records. See StateRecordsSkipped in docs/how-to/runbooks.md."
)
_WITHOUT_KEY = "Records without a key need nothing: cleaning a compacted topic removes them, and it takes no new ones."


def skipped(
    store: Annotated[str, typer.Argument(help="The store's name.")], output: ListOption = ListOutput.TABLE
) -> None:
    """List the changelog records that are not rows.

    Standard error says how to remove them.

    Example: storekeeper skipped rewards
    """
    settings = AppSettings.of_platform()
    spec, _ = live_store(store, settings)
    reasons: set[str] = set()
    rows = _rows(Changelog(settings.kafka, spec.changelog_topic), reasons)
    count = write_rows(rows, output, _COLUMNS)
    say(f"{count} records of {spec.changelog_topic} are not rows.")
    if reasons - {SkipReason.NULL_KEY}:
        say(_WITH_KEY)
    if SkipReason.NULL_KEY in reasons:
        say(_WITHOUT_KEY)


def _rows(changelog: Changelog, reasons: set[str]) -> Iterator[dict[str, Any]]:
    """One for each skipped record; its reason is added to `reasons`."""
    for partition in changelog.partitions:
        for record in changelog.skipped(partition, *changelog.committed(partition)):
            reasons.add(record.reason)
            yield {
                "topic": changelog.topic,
                "partition": partition,
                "offset": record.offset,
                "timestamp_ms": record.timestamp_ms,
                "reason": record.reason.value,
            }
