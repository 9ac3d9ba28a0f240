"""What a snapshot's manifest says, compared with the store, its generations and the topics.

Readers rely on it: a seed and a query by position on the offsets, the next snapshot on the topic and the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations.catalog import numbered
from storekeeper.generations.journal import FIRST_GENERATION
from storekeeper.generations.live import journal_of, store_in
from storekeeper.snapshots.manifest import SnapshotManifest

_CLOCKS_APART_MS = 3_600_000


def wrong_claims(
    manifest: SnapshotManifest, store: StoreSpec, settings: AppSettings, topics: Topics, *, now_ms: int
) -> Iterator[str]:
    """A sentence for each thing that a manifest says and that isn't so.

    Args:
        manifest: that of the store's newest snapshot.
        store: the store, in the live generation of its app.
        settings: where the journals are; those of the live generation.
        topics: the broker's.
        now_ms: the time, epoch milliseconds.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
    """
    made = _made_as(manifest, store, settings)
    if made is None:
        yield f"its manifest is of generation {manifest.generation}, which {store.app} has never had"
        made = store
    expected: Mapping[str, tuple[object, object]] = {
        "store": (manifest.store, made.name),
        "app": (manifest.app, made.app),
        "kind": (manifest.kind.value, made.kind.value),
        "score field": (manifest.score_field, made.score_field),
        "changelog topic": (manifest.changelog_topic, made.changelog_topic),
        "values by schemas": (manifest.by_schema, made.by_schema),
    }
    for name, (claim, right) in expected.items():
        if claim != right:
            yield f"its manifest says {name} {claim}, and it is {right}"
    if not 1 <= manifest.schema_version <= made.schema_version:
        yield f"its manifest says schema version {manifest.schema_version}, and the store has {made.schema_version}"
    if manifest.batch_ms > now_ms + _CLOCKS_APART_MS:
        yield f"its manifest is of a time that has not come, {manifest.batch_ms} ms"
    yield from _wrong_offsets(manifest, topics)


def _made_as(manifest: SnapshotManifest, store: StoreSpec, settings: AppSettings) -> StoreSpec | None:
    """The store as it was in the generation of the manifest; None if there was none."""
    if settings.fixes_generation:
        known = FIRST_GENERATION <= manifest.generation <= settings.generation
        specs = numbered(APPS[store.app], manifest.generation).stores if known else ()
        return next((one for one in specs if one.name == store.name), None)
    journal = journal_of(store, settings)
    known = manifest.generation in ({FIRST_GENERATION} if journal is None else journal.generations)
    return store_in(manifest, store, settings) if known else None


def _wrong_offsets(manifest: SnapshotManifest, topics: Topics) -> Iterator[str]:
    claimed = {topic: dict(ends) for topic, ends in manifest.source_offsets.offsets.items()}
    if manifest.changelog_offsets:
        claimed[manifest.changelog_topic] = dict(manifest.changelog_offsets)
    there = topics.partition_counts({*claimed}.intersection(topics.names()))
    ends = topics.committed_end(there)
    for topic in sorted(there):
        for partition, offset in sorted(claimed[topic].items()):
            end = ends.offset(topic, partition)
            if end is None:
                yield f"its manifest names partition {partition} of {topic}, which has {there[topic]}"
            elif not 0 <= offset <= end:
                yield f"its manifest reaches to offset {offset} of {topic} partition {partition}, which ends at {end}"
    changelog = manifest.changelog_topic
    if changelog in there and len(claimed.get(changelog, {})) < there[changelog]:
        yield f"its manifest names {len(claimed[changelog])} of the {there[changelog]} partitions of {changelog}"
    if manifest.digests.keys() != manifest.changelog_offsets.keys():
        yield "its manifest has digests and offsets of different partitions"
