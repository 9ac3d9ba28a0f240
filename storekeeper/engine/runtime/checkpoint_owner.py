"""The owner of a checkpoint folder: a file beside the folder, written before the first start.

`checkpoints/<app>/gen-<n>.claim.json`: {"app", "generation", "query_id", "topic_ids", "partitions", "stores",
"repartitions", "slots", "code", "served"}. It is beside the folder and not in it, because Spark requires an empty
folder at the first start.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field, replace
from itertools import chain
from typing import Self

import msgspec
import orjson

from storekeeper.apps.errors import START_ANEW, UnusableCheckpointError
from storekeeper.apps.topology_app import generation_topic
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.locations import Location, write_in_one_step
from storekeeper.names import changelog_topic
from storekeeper.topology.describe import THROUGH_TOPIC
from storekeeper.topology.slots import Slots, topic_member

CLAIM_SUFFIX = ".claim.json"
"""Behind the name of a checkpoint folder: the name of the claim on it."""


@dataclass(frozen=True, slots=True)
class ServedStore:
    """What the rows of a store are, as its app began with them. Only a ranked store has a `score_field`. `fields` has
    the SQL type of each field of its values.
    """

    kind: str
    score_field: str | None
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CheckpointOwner:
    """The owner of a checkpoint, and the topics that it was started on.

    Attributes:
        app: The app's name.
        generation: The app's generation.
        query_id: The query's id; None until the query has started for the first time.
        topic_ids: The broker's ids of the source topics and of the app's own topics.
        partitions: By topic, the number of partitions that the app's state was made with. Fixed by the first start.
        stores: By name, the kind of each store that the app keeps for itself, as of its last start.
        repartitions: By name, how its records are repartitioned, as of its last start. See `AppTopology`.
        slots: The names of its tasks, with what they read and store as of its last start. See
            `storekeeper.topology.slots`.
        code: A digest of the app's own source files, as of its last start. See `code_digest`.
        served: By name, the stores that nodes serve, as of the app's last start.
    """

    app: str
    generation: int
    query_id: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict)
    stores: Mapping[str, str] = field(default_factory=dict)
    repartitions: Mapping[str, str] = field(default_factory=dict)
    slots: Slots = field(default_factory=dict)
    code: str | None = None
    served: Mapping[str, ServedStore] = field(default_factory=dict)

    @classmethod
    def read(cls, checkpoint_dir: Location) -> Self | None:
        """The claim on a checkpoint folder; None if there is none.

        Raises:
            UnusableCheckpointError: the file is damaged.
        """
        file = owner_file(checkpoint_dir)
        try:
            return msgspec.json.decode(file.read_bytes(), type=cls)
        except FileNotFoundError:
            return None
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise UnusableCheckpointError(f"{file} can't be read: put it back from a copy, or {START_ANEW}") from error

    def write(self, checkpoint_dir: Location) -> None:
        """Replaces the claim in one step."""
        write_in_one_step(owner_file(checkpoint_dir), orjson.dumps(asdict(self)))

    @property
    def own_topics(self) -> set[str]:
        """Topics of `topic_ids` that surely hold the app's own state: the repartition topics, and the changelogs of its
        stores that have the usual name. Markers and changelogs with a name of the user's choice are not among them.

        A name alone proves nothing: the feed of another program may be called `<app>-db-changelog`, too.
        """
        usual = {changelog_topic(self.app, store) for store in (*self.stores, *self.served)}
        changelogs = {generation_topic(topic, self.generation) for topic in usual}
        # A store may have a changelog of another name, while a task reads a topic of the usual one.
        read = {*chain.from_iterable(self.slots.values())}
        changelogs = {topic for topic in changelogs if topic_member(topic) not in read}
        through = {topic for topic, transport in self.repartitions.items() if transport == THROUGH_TOPIC}
        return (changelogs | through) & self.topic_ids.keys()

    def check_own_topics(self, ids: Mapping[str, str], own: Collection[str]) -> None:
        """Checks that the app's own topics are those that it began with.

        Raises:
            UnusableCheckpointError: one was deleted since.
        """
        for topic, topic_id in self.topic_ids.items():
            if topic in own and ids.get(topic) != topic_id:
                raise UnusableCheckpointError(
                    f"topic {topic} was deleted since generation {self.generation} of {self.app} began, and with it "
                    f"the app's state: {START_ANEW}"
                )

    def check_sources(self, ids: Mapping[str, str]) -> None:
        """Checks that topics are those that the app began with. Topics that it began without may have any id.

        Raises:
            UnusableCheckpointError: one was deleted and recreated since.
        """
        for topic, topic_id in self.topic_ids.items():
            if ids.get(topic, topic_id) != topic_id:
                raise UnusableCheckpointError(
                    f"topic {topic} was deleted and recreated since generation {self.generation} of {self.app} began, "
                    f"so its offsets mean other records: {START_ANEW}"
                )


def owner_file(checkpoint_dir: Location) -> Location:
    """The file of the claim on a checkpoint folder."""
    return checkpoint_dir.with_name(checkpoint_dir.name + CLAIM_SUFFIX)


def confirmed_owner(checkpoint: BatchCheckpoint, mine: CheckpointOwner, own: Collection[str] = ()) -> CheckpointOwner:
    """The claim to continue with: `mine`, completed from the claim of an earlier start. `mine` is the claim of this
    start, `own` are the topics that hold the app's state.

    Raises:
        UnusableCheckpointError: the folder has another owner, or its topics were deleted since.
    """
    query_id = checkpoint.query_id()
    earlier = CheckpointOwner.read(checkpoint.path)
    if earlier is None:
        if query_id is not None:
            raise _foreign(checkpoint, mine, "it has no claim")
        return mine
    if (earlier.app, earlier.generation) != (mine.app, mine.generation):
        raise _foreign(checkpoint, mine, f"it is claimed by {earlier.app} generation {earlier.generation}")
    if earlier.query_id is not None and query_id != earlier.query_id:
        raise _foreign(checkpoint, mine, "another query wrote it" if query_id else "its content is gone")
    earlier.check_own_topics(mine.topic_ids, own)
    earlier.check_sources(mine.topic_ids)
    return replace(mine, query_id=query_id, partitions={**mine.partitions, **earlier.partitions})


def _foreign(checkpoint: BatchCheckpoint, mine: CheckpointOwner, why: str) -> UnusableCheckpointError:
    return UnusableCheckpointError(
        f"checkpoint {checkpoint.path} is not the one of {mine.app} generation {mine.generation} ({why}): "
        f"move it away and put the right one back, or {START_ANEW}"
    )
