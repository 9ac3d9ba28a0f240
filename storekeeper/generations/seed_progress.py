"""The progress that a generation's tasks begin with, besides rows: stream times, what was emitted, timers.

It is read from the markers of the live generation's tasks. The new generation's tasks read it from their own markers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from storekeeper.changelog.bounded_reader import read_topic
from storekeeper.engine.markers import Marker
from storekeeper.generations.errors import GenerationRefusedError, NotesGoneError
from storekeeper.kafka.connection import Kafka
from storekeeper.names import markers_topic
from storekeeper.topology.layout import Layout
from storekeeper.topology.operators.repartition import RepartitionSource
from storekeeper.topology.sub_topology import SubTopology

Progress = Mapping[int, bytes]
"""Progress of a sub-topology's tasks, by partition; without the tasks that have not run yet."""


def live_progress(
    kafka: Kafka, app: str, generation: int, slots: Iterable[str], *, query_id: str, batch_id: int
) -> dict[str, Progress]:
    """The progress of a generation's tasks after a batch, by slot name.

    Raises:
        NotesGoneError: a task has only markers of later batches.
    """
    found: dict[str, Progress] = {}
    for slot in slots:
        newest: dict[int, Marker | None] = {}
        for message in read_topic(kafka, markers_topic(app, generation, slot)):
            marker, partition = Marker.decode(message.value() or b""), message.partition() or 0
            if message.key() == query_id.encode():
                newest[partition] = marker if marker.batch_id <= batch_id else newest.get(partition)
        if None in newest.values():
            msg = f"the progress of {slot} after batch {batch_id} is not there any more"
            raise NotesGoneError(msg)
        found[slot] = {partition: marker.progress for partition, marker in newest.items() if marker is not None}
    return found


def peer_of(sub: SubTopology, live: Layout) -> SubTopology | None:
    """The live sub-topology that a new one replaces: it shares a store, or else an input topic; None if none does.

    Repartition topics don't count: their names differ between generations.
    """
    stores, topics = {spec.name for spec in sub.stores}, _plain_topics(sub)
    others = [other for other in live.topology.sub_topologies if not other.is_global]
    same = [other for other in others if stores & {spec.name for spec in other.stores}]
    return next(iter(same or [other for other in others if topics & _plain_topics(other)]), None)


def progress_of(before: Progress, partitions: int, *, moved: bool) -> Progress:
    """The progress of a new sub-topology's tasks.

    Args:
        before: that of the live tasks.
        partitions: how many tasks it has.
        moved: whether keys move to other tasks. A task may then get keys of any live one, and takes the latest times.

    Raises:
        GenerationRefusedError: keys move to other tasks, and the progress can't be merged.
    """
    if not moved:
        return before
    times: dict[str, int] = {}
    for progress in map(orjson.loads, before.values()):
        _check_joinable(progress)
        for name, time_ms in progress.get("times", {}).items():
            times[name] = max(time_ms, times.get(name, time_ms))
    joined = orjson.dumps({"times": times})
    return dict.fromkeys(range(partitions), joined) if before else {}


def _check_joinable(progress: Mapping[str, Any]) -> None:
    if progress.get("emitted") or progress.get("timers"):
        msg = (
            "keys can't move to other tasks in this topology: it emits when windows close, or has timers, and each "
            "task is at another place. Leave partitions and keys as they are"
        )
        raise GenerationRefusedError(msg)


def _plain_topics(sub: SubTopology) -> set[str]:
    return {source.topic for source in sub.sources if not isinstance(source, RepartitionSource)}
