"""Topics that the run directory's apps began with and that Kafka doesn't have any more, or has another one of the name.

The claims on checkpoints have the ids of all topics that an app began with; checkpoints and manifests of snapshots have
how far topics reached. They are files of the run directory, so they outlive Kafka's data. An empty Kafka is not taken
for an empty truth: nothing is made anew before a person says so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.changelog.position import Position
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CLAIM_SUFFIX, CheckpointOwner
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations.live import named_generations
from storekeeper.locations import Location, entries
from storekeeper.ops.environment import app_settings
from storekeeper.ops.errors import LostTopicsError
from storekeeper.ops.layout import RunLayout
from storekeeper.ops.settings import PlatformSettings
from storekeeper.snapshots.delta_log import newest_manifest

GUIDE = "docs/how-to/back-up-and-recover.md#kafkas-data-is-lost"
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Known:
    """What an app's files say about Kafka.

    Attributes:
        ids: topic ids by topic, of the generations that the configuration names; None where any topic will do.
        ends: by topic and partition, an offset that the topic had reached.
    """

    ids: Mapping[str, str | None] = field(default_factory=dict)
    ends: Mapping[str, Mapping[int, int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Losses:
    """What is lost, by app and topic, each with a word how; and how many topics were looked for."""

    by_app: Mapping[str, Mapping[str, str]]
    known: int

    @property
    def topics(self) -> Mapping[str, str]:
        """All lost topics, each with a word how."""
        return {topic: how for lost in self.by_app.values() for topic, how in lost.items()}

    @property
    def are_total(self) -> bool:
        """Whether no topic is left that any app began with: this is another Kafka, or an empty one."""
        return bool(self.topics) and len(self.topics) == self.known

    def of(self, app: str) -> str:
        """What an app has lost, in a sentence."""
        return (
            f"can't start, as topics are lost that it began with: {_listed(self.by_app[app])}. Nothing was made anew. "
            f"{_REMEDY}"
        )


_REMEDY = (
    "Put Kafka's data back if it is elsewhere (another volume, folder or cluster). If it is gone, go on from "
    f"the tables or start a new generation, and run `storekeeper up --accept-loss` once: {GUIDE}"
)


def known_topics(apps: Iterable[AppSpec], settings: AppSettings) -> dict[str, Known]:
    """What the files of a run directory say about Kafka, by app; apps that have never run are left out.

    Raises:
        StateError: a journal or claim is damaged, or can't be reached.
    """
    by_app = {app.name: _known(app, settings) for app in apps}
    return {app: known for app, known in by_app.items() if known.ids}


def lost_topics(known: Mapping[str, Known], topics: Topics) -> Losses:
    """Compares what is known with what Kafka has.

    Raises:
        StateError: Kafka doesn't answer.
    """
    names = {topic for one in known.values() for topic in one.ids}
    missing = {*topics.missing(names)}
    there = names - missing
    ids, ends = (topics.ids(there), topics.end(there)) if there else ({}, Position())
    lost: dict[str, dict[str, str]] = {}
    for app, one in known.items():
        for topic, topic_id in one.ids.items():
            if topic in missing:
                how = "deleted"
            elif topic_id is not None and ids[topic] != topic_id:
                how = "deleted and recreated"
            elif any((ends.offset(topic, part) or 0) < end for part, end in one.ends.get(topic, {}).items()):
                how = "ends before what was read of it: older data"
            else:
                continue
            lost.setdefault(app, {})[topic] = how
    return Losses(lost, len(names))


def check_not_empty(settings: PlatformSettings, apps: Sequence[AppSpec]) -> None:
    """Checks, before the storage of the platform's own broker is made, that there was none before.

    Raises:
        LostTopicsError: apps began with topics, and the broker's folder is gone.
    """
    if not settings.starts_broker or (RunLayout(settings.run_dir).kafka / "data" / "meta.properties").exists():
        return
    known = known_topics(apps, app_settings(settings))
    topics = sorted({topic for one in known.values() for topic in one.ids})
    if topics:
        refuse(f"the broker's data in {RunLayout(settings.run_dir).kafka} is gone", dict.fromkeys(topics, ""))


def refuse(what: str, topics: Mapping[str, str]) -> None:
    """Refuses to go on.

    Raises:
        LostTopicsError: always.
    """
    msg = f"Kafka's data is lost: {what}, and with it {_listed(topics)}. Nothing was made anew. {_REMEDY}."
    raise LostTopicsError(msg)


def _known(app: AppSpec, settings: AppSettings) -> Known:
    ids: dict[str, str | None] = {}
    ends: dict[str, dict[int, int]] = {}
    for spec, of_generation in named_generations(app, settings):
        claim = CheckpointOwner.read(of_generation.checkpoint_dir(app.name))
        if claim is None:
            continue
        ids |= claim.topic_ids
        for topic, partition, offset in BatchCheckpoint(of_generation.checkpoint_dir(app.name)).committed_position():
            ends.setdefault(topic, {})[partition] = offset
        for store in spec.stores:
            manifest = newest_manifest(of_generation.delta_table(store.table_name))
            if manifest is not None and manifest.changelog_topic == store.changelog_topic:
                ends.setdefault(store.changelog_topic, {}).update(manifest.changelog_offsets)
    if ids:
        return Known(ids, {topic: end for topic, end in ends.items() if topic in ids})
    # A new generation: its own topics are to be made, and the sources must be there as they were for the ones before.
    sources = {*app.sources(settings)}
    earlier = (CheckpointOwner.read(path) for path in _claimed(app, settings))
    return Known({topic: None for claim in earlier if claim for topic in claim.topic_ids if topic in sources})


def _claimed(app: AppSpec, settings: AppSettings) -> Iterable[Location]:
    folder = settings.checkpoints / app.name
    for path in entries(folder):
        if path.name.endswith(CLAIM_SUFFIX):
            yield path.with_name(path.name.removesuffix(CLAIM_SUFFIX))


def _listed(topics: Mapping[str, str]) -> str:
    shown = [f"{topic} ({how})" if how else topic for topic, how in sorted(topics.items())]
    more = f" and {len(shown) - _SHOWN} more" if len(shown) > _SHOWN else ""
    return ", ".join(shown[:_SHOWN]) + more
