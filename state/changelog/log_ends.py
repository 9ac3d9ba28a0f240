"""Asks the broker where changelog partitions end: all of them in one go, without disturbing the reader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from confluent_kafka import Consumer, KafkaException

from state.changelog.log_bounds import END, offset_client, told_offsets
from state.changelog.log_reader import TopicAndPartition


class LogEnds(Protocol):
    """Tells where logs end."""

    def ends(self, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, tuple[int, int]]:
        """The last stable offset and the end of what is written, of each partition that the broker told of in time."""
        ...


class KafkaLogEnds:
    """`LogEnds` from a broker. Belongs to one thread."""

    def __init__(self, bootstrap: str, *, timeout_s: float = 1.0) -> None:
        self._timeout_s = timeout_s
        self._stable = offset_client(bootstrap, error_cb=_ignore)
        self._written = offset_client(bootstrap, isolation="read_uncommitted", error_cb=_ignore)

    def ends(self, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, tuple[int, int]]:
        """See `LogEnds`. Takes two round trips; at most twice the timeout if the broker is away."""
        stable = self._ask(self._stable, partitions)
        written = self._ask(self._written, list(stable))
        return {where: (stable[where], end) for where, end in written.items()}

    def _ask(self, client: Consumer, partitions: Sequence[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        try:
            return told_offsets(client, dict.fromkeys(partitions, END), self._timeout_s)
        except KafkaException:
            return {}


def _ignore(_: object) -> None:
    """That no broker answers is the reader's to report: here it shows as an end that isn't told."""
