"""Commits the progress of a node's replicas as offsets of a consumer group, for tools that show lag.

Nothing here reads these offsets: a replica's position lives with its rows. The group has no members: replicas are
assigned by the cluster, not by Kafka. Offsets of a partition that the node no longer holds expire by the brokers'
`offsets.retention.minutes`, by default after a week.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import structlog
from confluent_kafka import KafkaException, TopicPartition

from storekeeper.kafka.clients import new_group_committer
from storekeeper.kafka.connection import Kafka
from storekeeper.names import node_group
from storekeeper.node.replicas.replica import Replica

log = structlog.get_logger(__name__)

COMMIT_EVERY_S = 10.0


class GroupOffsets:
    """One thread that commits how far the open replicas are. A failure is logged once and changes nothing else."""

    def __init__(self, kafka: Kafka, node: str, replicas: Callable[[], Iterable[Replica]]) -> None:
        """Starts nothing. `replicas` returns those that the node holds now."""
        self._consumer = new_group_committer(kafka, node_group(kafka.cluster, node))
        self._replicas = replicas
        self._failed = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="group-offsets", daemon=True)

    def start(self) -> None:
        """Begins, and returns at once."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the current commit. Safe to call twice, or without `start`."""
        self._stop.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._consumer.close()

    def commit(self) -> None:
        """Commits once.

        Raises:
            KafkaException: the brokers refuse it, or don't answer.
        """
        offsets = [
            TopicPartition(replica.topic, replica.replica_id.partition, replica.offset)
            for replica in self._replicas()
            if replica.offset is not None
        ]
        for committed in self._consumer.commit(offsets=offsets, asynchronous=False) if offsets else ():
            if committed.error is not None:
                raise KafkaException(committed.error)

    def _run(self) -> None:
        while not self._stop.wait(COMMIT_EVERY_S):
            try:
                self.commit()
            except Exception as error:  # lag tools show less: no reason to stop anything
                (log.debug if self._failed else log.warning)("group_offsets_not_committed", error=str(error))
                self._failed = True
            else:
                self._failed = False
