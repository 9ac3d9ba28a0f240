"""The checks of an app's start, made before a JVM is started."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from storekeeper.apps.errors import START_ANEW, LostChangelogError, UnusableCheckpointError
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.apps.topology_app import (
    described,
    kept_inside,
    markers_topics,
    own_topics,
    read_topics,
    slots_after,
)
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock
from storekeeper.engine.markers import Marker
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner, ServedStore, confirmed_owner, owner_file
from storekeeper.engine.runtime.code_digest import code_digest
from storekeeper.engine.runtime.topics import (
    PATIENCE_S,
    TopicBounds,
    Topics,
    await_topics,
    check_partitions,
    state_topics,
)
from storekeeper.engine.store_backends import check_backends
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.access import check_login
from storekeeper.kafka.connection import KEPT_TIMES, TIMES
from storekeeper.topology.slots import NO_SLOTS


@dataclass(frozen=True, slots=True)
class Preflight:
    """The result: the app's claim on its checkpoint, its committed position, and the end of its sources."""

    claim: CheckpointOwner
    position: Position
    end: Position


def preflight(spec: AppSpec, settings: AppSettings, topics: Topics, clock: Clock) -> Preflight:
    """Checks broker, topics and checkpoint, and claims the checkpoint for the app.

    Raises:
        BrokerUnavailableError: the broker doesn't answer.
        ConfigurationError: topics are missing, topics of the app's own don't keep the times of records, Kafka refuses
            this app, or the server of its stores on Redis is not named or evicts keys.
        StorageError: that server can't be reached.
        UnusableCheckpointError: the checkpoint is another's or an older copy, points outside the topics, or is lost
            with its claim.
        PartitionsChangedError: a topic has another number of partitions than the state was made with.
        LostChangelogError: a changelog ends before what the app's tasks had committed.
    """
    names = spec.topics(settings)
    if settings.kafka_properties is not None:
        check_login(settings.kafka, PATIENCE_S)
    if spec.describe is not None:
        check_backends(described(spec.name, spec.describe, settings), settings)
    await_topics(topics, names, clock=clock, wait=time.sleep)
    sources = spec.sources(settings)
    checkpoint = BatchCheckpoint(settings.checkpoint_dir(spec.name))
    counts = topics.partition_counts(state_topics(spec, settings))
    slots = _slots(spec, settings, checkpoint)
    own = own_topics(spec, settings, slots)
    missing = topics.missing(own)  # the app makes them at its first start
    check_times(spec.name, topics, [*(topic for topic in own if topic not in missing), *spec.dead_letter_topics])
    ids = topics.ids([*sources, *(topic for topic in own if topic not in missing)])
    generation, code = settings.generation, code_digest(spec)
    served = {each.name: ServedStore(each.kind.value, each.score_field, each.fields) for each in spec.stores}
    mine = CheckpointOwner(spec.name, generation, None, ids, counts, *_inside(spec, settings), slots, code, served)
    claim = confirmed_owner(checkpoint, mine, own)
    if claim.query_id is None:
        _check_never_ran(mine, checkpoint, topics.committed_end(topic for topic in own if topic not in missing))
    check_partitions(spec.name, claim.partitions, counts)
    read = dict.fromkeys([*sources, *read_topics(spec, settings)])
    bounds = topics.bounds(topic for topic in read if topic not in missing)
    position, planned = checkpoint.committed_position(), checkpoint.last_planned_batch()
    if planned is not None and planned != checkpoint.last_committed_batch():
        position = checkpoint.start_position(planned)  # with the partitions that are new in this batch
    check_bounds(spec, settings, position, bounds)
    if planned is not None:
        check_bounds(spec, settings, checkpoint.end_position(planned), bounds)
    if claim.query_id is not None:
        markers = markers_topics(spec, settings, slots)
        absent = topics.missing(markers)
        found_markers = topics.markers([topic for topic in markers if topic not in absent], claim.query_id)
        check_newest(mine, checkpoint, found_markers)
        check_changelogs(topics, found_markers, {*own} - {*missing})
    claim.write(checkpoint.path)
    return Preflight(claim, bounds.start.merged(position), bounds.end)


def check_times(app: str, topics: Topics, own: Collection[str]) -> None:
    """Checks that existing topics, which only the app writes to, keep the times that it gives its records.

    Raises:
        ConfigurationError: brokers replace them in some, as their default may be. Windows would lose their times.
    """
    wrong = topics.without_times(own)
    if wrong:
        raise ConfigurationError(
            f"topics of {app} don't keep the times of records: {', '.join(wrong)}. Set {TIMES}={KEPT_TIMES} on each "
            "(docs/how-to/use-your-kafka.md#times), then start again"
        )


def _inside(spec: AppSpec, settings: AppSettings) -> tuple[dict[str, str], dict[str, str]]:
    if spec.describe is None:
        return {}, {}
    return kept_inside(described(spec.name, spec.describe, settings))


def _slots(spec: AppSpec, settings: AppSettings, checkpoint: BatchCheckpoint) -> dict[str, list[str]]:
    """The slots of the app's tasks: those of its last start, if a query of it has run."""
    earlier = CheckpointOwner.read(checkpoint.path)
    ran = earlier is not None and (earlier.app, earlier.generation) == (spec.name, settings.generation)
    before = earlier.slots if ran and earlier is not None and checkpoint.query_id() is not None else NO_SLOTS
    try:
        return slots_after(spec, settings, before)
    except ConfigurationError as error:
        msg = f"{spec.name} generation {settings.generation} can't go on with this topology: {error}"
        raise UnusableCheckpointError(msg) from error


def _check_never_ran(mine: CheckpointOwner, checkpoint: BatchCheckpoint, ends: Position) -> None:
    """Checks that an app without checkpoint and claim has no state: it would count its input on top of it."""
    if CheckpointOwner.read(checkpoint.path) is not None:
        return
    for topic, partition, end in ends:
        if end > 0:
            raise UnusableCheckpointError(
                f"{mine.app} generation {mine.generation} has no checkpoint and no claim, but partition {partition} of "
                f"its topic {topic} has records: it would count its input twice. Put {checkpoint.path} and "
                f"{owner_file(checkpoint.path).name} back from a copy, or start a new generation, which reads the "
                "input again (docs/how-to/back-up-and-recover.md)"
            )


def check_newest(mine: CheckpointOwner, checkpoint: BatchCheckpoint, markers: Mapping[tuple[str, int], Marker]) -> None:
    """Checks that a checkpoint has planned what the app's tasks have committed.

    A task refuses a batch of an older copy as well. But one that has not committed since would run it, and then refuse
    the right checkpoint. `markers` are what tasks have committed last, by topic and partition.

    Raises:
        UnusableCheckpointError: it is an older copy, or an older copy has run since.
    """
    planned = checkpoint.last_planned_batch()
    for (topic, partition), marker in markers.items():
        if planned is None or marker.batch_id > planned:
            ends = "no batch" if planned is None else f"batch {planned}"
            why = f"it ends with {ends}, and a task has committed batch {marker.batch_id}"
        elif checkpoint.plans(marker.batch_id) and (other := _read_further(marker, checkpoint)):
            why = f"a task has committed batch {marker.batch_id} with {other}"
        else:
            continue
        raise UnusableCheckpointError(
            f"checkpoint {checkpoint.path} is an older copy of the one of {mine.app} generation {mine.generation}: "
            f"{why} ({topic}[{partition}]). No batch has run. Move it away and put the newest one back, or start a new "
            "generation, which reads the input again (docs/how-to/back-up-and-recover.md)"
        )


def check_changelogs(topics: Topics, markers: Mapping[tuple[str, int], Marker], there: Collection[str]) -> None:
    """Checks that changelogs still have what the app's tasks have committed.

    A task checks its own before a batch. But an app without input would seem to work until then. `markers` are what
    tasks have committed last, by topic and partition; `there` are the app's topics that there are.

    Raises:
        LostChangelogError: one ends earlier.
        OpenTransactionError: one seems to, and a transaction in it stays open.
    """
    reached = {
        (topic, partition): offset
        for (_, partition), marker in markers.items()
        for topic, offset in marker.logs.items()
        if topic in there
    }
    # Cheap, and too early where a transaction is open: only there is the exact end asked for.
    seen = topics.end({topic for topic, _ in reached})
    short = {topic for (topic, partition), offset in reached.items() if (seen.offset(topic, partition) or 0) < offset}
    ends = topics.committed_end(sorted(short)) if short else seen
    for (topic, partition), offset in reached.items():
        end = ends.offset(topic, partition) or 0
        if topic in short and end < offset:
            raise LostChangelogError.of(topic, partition, f"ends at {end}", f"the task's marker has it at {offset}")


def _read_further(marker: Marker, checkpoint: BatchCheckpoint) -> str | None:
    """Input of a committed batch that ends elsewhere than the checkpoint says; None if there is none."""
    planned = checkpoint.end_position(marker.batch_id)
    for topic, ranges in marker.source.items():
        for partition, (_, end) in ranges.items():
            if planned.offset(topic, partition) != end:
                return f"input to {topic}[{partition}]@{end}, and it has planned {planned.offset(topic, partition)}"
    return None


def check_bounds(spec: AppSpec, settings: AppSettings, position: Position, bounds: TopicBounds) -> None:
    """Checks that reading can go on from `position`.

    Raises:
        UnusableCheckpointError: it names a topic that the app doesn't read, or an offset that the topic doesn't hold.
    """
    sources = read_topics(spec, settings)
    for topic, partition, offset in position:
        if topic not in sources:
            raise UnusableCheckpointError(
                f"the checkpoint of {spec.name} generation {settings.generation} is of topic {topic}, not of "
                f"{', '.join(sources)}: correct the topic's setting, or {START_ANEW}"
            )
        start, end = bounds.start.offset(topic, partition), bounds.end.offset(topic, partition)
        if start is None or end is None or not start <= offset <= end:
            held = "nothing" if start is None else f"offsets {start} to {end}"
            raise UnusableCheckpointError(
                f"{spec.name} has to read on at offset {offset} of {topic} partition {partition}, which holds {held}: "
                f"records are lost or the topic was recreated: {START_ANEW}"
            )
