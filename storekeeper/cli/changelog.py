"""`skipped` and `accept-topic`: the records of a store's changelog that are not rows, and its topic made anew."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, Any

import typer

from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.scan import Changelog
from storekeeper.changelog.skipped import SkipReason
from storekeeper.cli.output import ListOption, ListOutput, say, write_rows
from storekeeper.clock import SystemClock
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


def accept_topic(
    store: Annotated[str, typer.Argument(help="The store's name.")],
) -> None:
    """Take a store's recreated changelog for the right one.

    Nodes keep the rows of a changelog that was deleted, and answer from them or with 503, as they may be the last copy.
    After this command they drop these rows and read the topic that has the name now. Make it first with
    `storekeeper create-topics`, if need be.

    Example: storekeeper accept-topic rewards
    """
    from storekeeper.errors import ConfigurationError, UnknownStoreError  # noqa: PLC0415
    from storekeeper.node.cluster.aliases import (  # noqa: PLC0415 (loads Kafka's client)
        Alias,
        publish_alias,
        read_aliases,
        topic_id_of,
    )
    from storekeeper.node.security.cluster_secret import load_cluster_secret  # noqa: PLC0415
    from storekeeper.node.settings import load_node_settings  # noqa: PLC0415

    settings, now_ms = load_node_settings(), SystemClock().now_ms()
    if store not in settings.definitions:
        msg = f"there is no store {store[:140]!r}: name one of {', '.join(settings.definitions) or 'none'}"
        raise UnknownStoreError(msg)
    secret = load_cluster_secret(settings.cluster_secret_path)
    known = read_aliases(settings.kafka, secret).get(store)
    alias = Alias(store, 1, settings.definitions[store].topic, None, now_ms) if known is None else known
    topic_id = topic_id_of(settings.kafka, alias.topic)
    if topic_id is None:
        msg = f"there is no topic {alias.topic}: make it with `storekeeper create-topics`, then accept it"
        raise ConfigurationError(msg)
    publish_alias(settings.kafka, secret, replace(alias, at_ms=now_ms))
    say(f"nodes read {store} from {alias.topic} as it is now (id {topic_id})")
