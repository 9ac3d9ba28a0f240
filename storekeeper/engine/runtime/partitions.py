"""Checks that an app's topics still have the numbers of partitions that its state was made with.

A task keeps the state of one source partition, and a changelog's partition holds all rows of a key. With more
partitions a key may go to another one: its state would start empty there, and its old row would stay behind.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from storekeeper.apps.errors import PartitionsChangedError
from storekeeper.apps.topology_app import described, logged_stores

if TYPE_CHECKING:
    from storekeeper.apps.settings import AppSettings
    from storekeeper.apps.spec import AppSpec
    from storekeeper.changelog.position import Position


def state_topics(spec: AppSpec, settings: AppSettings) -> tuple[str, ...]:
    """The topics whose number of partitions the app's state depends on.

    Sources and changelogs of an app that keeps a store; none of any other app. The changelogs of stores that no node
    serves are not among them: the app makes them itself, at its first start.
    """
    if not _keeps_state(spec, settings):
        return ()
    return tuple(dict.fromkeys([*spec.sources(settings), *(store.changelog_topic for store in spec.stores)]))


def _keeps_state(spec: AppSpec, settings: AppSettings) -> bool:
    if spec.describe is None:
        return bool(spec.stores)
    return bool(logged_stores(described(spec.name, spec.describe, settings)))


def counts_in(position: Position) -> dict[str, int]:
    """The number of partitions by topic in a position that names all of them, as Spark's offsets do."""
    return {topic: len(partitions) for topic, partitions in position.offsets.items()}


def check_partitions(app: str, made_with: Mapping[str, int], found: Mapping[str, int]) -> None:
    """Checks that topics have the numbers of partitions that the app's state was made with.

    Args:
        app: The app's name.
        made_with: The number of partitions by topic that the state was made with. Other topics may have any number.
        found: The number that the topics have now. Topics that are missing here are not checked.

    Raises:
        PartitionsChangedError: A topic has another number.
    """
    for topic, before in made_with.items():
        now = found.get(topic, before)
        if now != before:
            msg = (
                f"topic {topic} has {now} partitions, but the state of {app} was made with {before}: keys would lose "
                "their state, so the app stopped before it processed any record. Kafka can't remove partitions: "
                "start the app under a new name, on new topics (docs/how-to/scale.md, 'More partitions')"
            )
            raise PartitionsChangedError(msg)
