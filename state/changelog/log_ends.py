"""Asks the broker where changelog partitions end: all of them in one go, without disturbing the reader."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, Protocol

from confluent_kafka import IsolationLevel, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

from state.changelog.log_bounds import told_offset
from state.changelog.log_reader import TopicAndPartition

_Futures = dict[TopicPartition, Future[Any]]


class LogEnds(Protocol):
    """Tells where logs end."""

    def ends(self, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, tuple[int, int]]:
        """The last stable offset and the end of what is written, of each partition that the broker told of in time."""
        ...


class KafkaLogEnds:
    """`LogEnds` from a broker. Belongs to one thread."""

    def __init__(self, bootstrap: str, *, timeout_s: float = 1.0) -> None:
        self._timeout_s = timeout_s
        self._admin = AdminClient(
            {"bootstrap.servers": bootstrap, "reconnect.backoff.max.ms": 500, "log_level": 0, "error_cb": _ignore}
        )

    def ends(self, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, tuple[int, int]]:
        """See `LogEnds`. Takes about one round trip; at most the timeout if the broker is away."""
        stable = self._ask(partitions, IsolationLevel.READ_COMMITTED)
        written = self._ask(partitions, IsolationLevel.READ_UNCOMMITTED)
        found = {where: (self._offset(stable[where]), self._offset(written[where])) for where in partitions}
        return {where: (low, high) for where, (low, high) in found.items() if low is not None and high is not None}

    def _ask(self, partitions: Sequence[TopicAndPartition], isolation: IsolationLevel) -> dict[Any, Future[Any]]:
        latest = OffsetSpec.latest()
        asked: _Futures = self._admin.list_offsets(
            {TopicPartition(*where): latest for where in partitions},
            isolation_level=isolation,
            request_timeout=self._timeout_s,
        )
        return {(where.topic, where.partition): future for where, future in asked.items()}

    def _offset(self, asked: Future[Any]) -> int | None:
        try:
            return told_offset(asked, self._timeout_s)
        except KafkaException:
            return None


def _ignore(_: object) -> None:
    """That no broker answers is the reader's to report: here it shows as an end that isn't told."""
