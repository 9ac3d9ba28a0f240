"""The topic behind each store: asked of the broker until all are known, and at intervals after that.

A node keeps the id and the partition count of each changelog as it first saw them: its rows are of that topic, and
partitioned by that count. A topic that is gone, or that another one has replaced, is lost: its rows are kept. A signed
alias that names the new topic's id accepts it, see `storekeeper accept-topic`. A node that sees a changelog for the
first time, as it is new or its disk is, goes by the id that the alias or the cluster's heartbeats have.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec
import orjson
import structlog

from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.reader import ChangelogReader, TopicFacts
from storekeeper.errors import ChangelogError
from storekeeper.node.cluster.aliases import Alias
from storekeeper.whole_files import write_whole

log = structlog.get_logger(__name__)

FILE_NAME = "topics.json"


@dataclass(frozen=True, slots=True)
class Counted:
    """The topic that a store's rows are of.

    Attributes:
        partitions: the partition count that queries use for it.
        topic_id: its id.
        lost: why the broker doesn't have it any more, and what to do; None if it has.
    """

    partitions: int
    topic_id: str
    lost: str | None = None


class KnownTopics:
    """The topics as this node first saw them, kept in a file, so that they hold over restarts. Not thread-safe.

    If a changelog gets more partitions, its rows stay where they are, and its app refuses to go on writing. With the
    new number, queries would look for most keys in the wrong partition and find no row.
    """

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE_NAME
        self._topics = self._read()

    def of(self, facts: TopicFacts, accepted: str | None = None, heard: str | None = None) -> Counted:
        """What to go by for a topic, given its current description from the broker.

        Args:
            facts: the description.
            accepted: the id of the topic that an operator or a hand-over has named; None if nobody has.
            heard: the id that nodes went by last; None if none has seen the topic.

        Raises:
            OSError: the file can't be written; a new topic isn't kept then.
        """
        known = self._topics.get(facts.topic) or Counted(facts.partitions, accepted or heard or facts.topic_id)
        if facts.topic_id not in {known.topic_id, accepted}:
            return replace(known, lost=f"changelog {facts.topic} was deleted and recreated: {_REMEDY}")
        if known.topic_id != facts.topic_id or not self.has(facts.topic):
            known = self._topics[facts.topic] = Counted(facts.partitions, facts.topic_id)
            self._write()
        if known.partitions != facts.partitions:
            log.warning(
                "changelog_has_other_partitions", topic=facts.topic, now=facts.partitions, going_by=known.partitions
            )
        return known

    def has(self, topic: str) -> bool:
        """Whether this node has seen a topic."""
        return topic in self._topics

    def without(self, topic: str) -> Counted | None:
        """What to go by for a topic that the broker doesn't have; None if this node has never seen it."""
        known = self._topics.get(topic)
        return None if known is None else replace(known, lost=f"changelog {topic} was deleted: {_REMEDY}")

    def _read(self) -> dict[str, Counted]:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=dict[str, Counted])
        except FileNotFoundError:
            return {}
        except (msgspec.MsgspecError, UnicodeDecodeError):
            log.warning("known_topics_unreadable", path=str(self._file))
            return {}

    def _write(self) -> None:
        write_whole(self._file, orjson.dumps(self._topics))


_RETRY_S = 1.0
_SOON_S = 0.05
_ASK_AGAIN_AFTER = 10
_REMEDY = (
    "nodes keep its rows. See docs/how-to/back-up-and-recover.md; if the loss is meant, "
    "`storekeeper accept-topic` drops them"
)


class PartitionCounts:
    """One thread that asks. It notices a topic that appears later or is lost; known counts are never dropped.

    `folder` is the node's own; each topic is kept there as it was first seen. `aliases` name the topics that were
    accepted since. `heard` returns the ids of topics that the cluster's nodes go by, or None while that isn't known:
    until then no topic is seen for the first time.
    """

    def __init__(
        self,
        topics: Callable[[], Mapping[str, str]],
        reader: Callable[[], ChangelogReader],
        folder: Path,
        aliases: Callable[[], Mapping[str, Alias] | None] = dict,
        heard: Callable[[], Mapping[str, str] | None] = dict,
    ) -> None:
        self._topics = topics
        self._make_reader = reader
        self._first = KnownTopics(folder)
        self._aliases = aliases
        self._heard = heard
        self._counts: Mapping[str, Counted] = {}
        self._waits = False  # for what the cluster has to say about topics that this node has never seen
        self._wanted = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="partition-counts", daemon=True)

    @property
    def known(self) -> Mapping[str, Counted]:
        """Number of partitions by store, for stores whose topics exist. The mapping never changes: read it again."""
        return self._counts

    def start(self) -> None:
        """Begins, and returns at once."""
        self._thread.start()

    def ask_soon(self) -> None:
        """Asks within a second: a topic was recreated, maybe with another number of partitions."""
        self._wanted.set()

    def stop(self) -> None:
        """Ends after the current read. Safe to call twice, or without `start`."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()

    @property
    def topic_ids(self) -> Mapping[str, str]:
        """The id by which this node goes, by topic."""
        counts = self._counts
        return {topic: counts[store].topic_id for store, topic in self._topics().items() if store in counts}

    def ask_once(self, reader: ChangelogReader) -> None:
        """Asks for every topic."""
        self._waits = False
        for store, topic in self._topics().items():
            if self._stop.is_set():
                return
            count = self._ask(reader, store, topic)
            if count is None or self._counts.get(store) == count:
                continue
            if count.lost is None:
                log.info("partitions_known", store=store, partitions=count.partitions, topic_id=count.topic_id)
            else:
                log.error("changelog_lost", store=store, error=count.lost)
            self._counts = {**self._counts, store: count}

    def _ask(self, reader: ChangelogReader, store: str, topic: str) -> Counted | None:
        """What to go by for a store's topic; None if nothing new is known."""
        aliases, heard = self._aliases(), self._heard()
        if not self._first.has(topic) and (aliases is None or heard is None):
            self._waits = True
            return None
        accepted = {alias.topic: alias.topic_id for alias in (aliases or {}).values()}
        try:
            return self._first.of(reader.facts(topic), accepted.get(topic), (heard or {}).get(topic))
        except ChangelogError as error:
            lost = None if isinstance(error, BrokerUnavailableError) else self._first.without(topic)
            if lost is None and store not in self._counts:
                log.warning("node_waits_for_changelog", store=store, error=str(error))
            return lost

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._keep_asking()
            except Exception:
                # If the node stopped asking, it would never hold a store whose topic is created later.
                log.exception("partition_counts_interrupted")
                self._stop.wait(_RETRY_S)

    def _keep_asking(self) -> None:
        reader = self._make_reader()
        asked = 0
        try:
            while not self._stop.is_set():
                known = self._counts.keys() >= self._topics().keys()
                if self._wanted.is_set() or not known or asked % _ASK_AGAIN_AFTER == 0:
                    self._wanted.clear()
                    self.ask_once(reader)
                asked += 1
                self._stop.wait(_SOON_S if self._waits else _RETRY_S)
        finally:
            reader.close()
