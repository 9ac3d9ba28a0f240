"""What the manifest of a snapshot or of a history says, compared with the store, its generations and the topics.

Readers rely on it: a seed and a query by position on the offsets, the next snapshot on the topic and the time, a read
as of a time on the eras and the gaps.
"""

from __future__ import annotations

from collections.abc import Iterator

from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations.catalog import numbered
from storekeeper.generations.journal import FIRST_GENERATION
from storekeeper.generations.live import journal_of, store_in
from storekeeper.snapshots.history import HistoryManifest
from storekeeper.snapshots.manifest import SnapshotManifest

_CLOCKS_APART_MS = 3_600_000


Manifest = SnapshotManifest | HistoryManifest


def wrong_claims(
    manifest: Manifest, store: StoreSpec, settings: AppSettings, topics: Topics, *, now_ms: int
) -> Iterator[str]:
    """A sentence for each thing that a manifest says and that isn't so.

    Args:
        manifest: that of the store's newest snapshot, or of its history.
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
    expected: dict[str, tuple[object, object]] = {
        "store": (manifest.store, made.name),
        "app": (manifest.app, made.app),
        "kind": (manifest.kind.value, made.kind.value),
        "changelog topic": (manifest.changelog_topic, made.changelog_topic),
    }
    if isinstance(manifest, SnapshotManifest):
        expected["score field"] = (manifest.score_field, made.score_field)
        expected["values by schemas"] = (manifest.by_schema, made.by_schema)
    for name, (claim, right) in expected.items():
        if claim != right:
            yield f"its manifest says {name} {claim}, and it is {right}"
    at_ms = manifest.batch_ms if isinstance(manifest, SnapshotManifest) else manifest.exact_to_ms
    if at_ms > now_ms + _CLOCKS_APART_MS:
        yield f"its manifest is of a time that has not come, {at_ms} ms"
    yield from _of_snapshots(manifest, made) if isinstance(manifest, SnapshotManifest) else _of_histories(manifest)
    yield from _wrong_offsets(manifest, topics)


def _of_snapshots(manifest: SnapshotManifest, made: StoreSpec) -> Iterator[str]:
    if not 1 <= manifest.schema_version <= made.schema_version:
        yield f"its manifest says schema version {manifest.schema_version}, and the store has {made.schema_version}"
    if manifest.digests.keys() != manifest.changelog_offsets.keys():
        yield "its manifest has digests and offsets of different partitions"


def _of_histories(manifest: HistoryManifest) -> Iterator[str]:
    eras, gaps = manifest.eras, manifest.gaps
    if not eras or sorted({*eras}) != [*eras] or not eras[0] <= manifest.exact_from_ms <= manifest.exact_to_ms:
        yield (
            f"its manifest says that it is exact from {manifest.exact_from_ms} to {manifest.exact_to_ms} ms, with "
            f"eras from {', '.join(map(str, eras))} on"
        )
    ends = [edge for gap in gaps for edge in gap]
    if sorted(ends) != ends or (ends and ends[-1] > manifest.exact_to_ms + 1):
        yield f"its manifest has gaps that don't follow each other: {', '.join(map(str, gaps))}"


def _made_as(manifest: Manifest, store: StoreSpec, settings: AppSettings) -> StoreSpec | None:
    """The store as it was in the generation of the manifest; None if there was none."""
    if settings.fixes_generation:
        known = FIRST_GENERATION <= manifest.generation <= settings.generation
        specs = numbered(APPS[store.app], manifest.generation).stores if known else ()
        return next((one for one in specs if one.name == store.name), None)
    journal = journal_of(store, settings)
    known = manifest.generation in ({FIRST_GENERATION} if journal is None else journal.generations)
    return store_in(manifest, store, settings) if known else None


def _wrong_offsets(manifest: Manifest, topics: Topics) -> Iterator[str]:
    claimed = {topic: dict(ends) for topic, ends in manifest.source_offsets.offsets.items()}
    if manifest.changelog_offsets:
        claimed[manifest.changelog_topic] = dict(manifest.changelog_offsets)
    there = topics.partition_counts({*claimed}.intersection(topics.names()))
    ends = topics.committed_end(there)
    own = manifest.changelog_topic
    if own in there and manifest.changelog_id != topics.ids([own])[own]:
        yield f"its manifest is of another topic {own}: that was deleted and recreated since"
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
