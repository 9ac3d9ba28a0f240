"""The input position of a store, as readers of its changelog see it: from the headers of its batches."""

from __future__ import annotations

from typing import Any

from storekeeper.changelog.headers import ChangelogHeaders, source_ranges_of
from storekeeper.changelog.position import Position

Shown = dict[str, dict[str, int]]


class Inputs:
    """Input records on their way into a store's changelog."""

    def __init__(self) -> None:
        self._under_way: tuple[str, int, int] | None = None
        self._batch = Position()
        self._headers: list[list[tuple[str, bytes | None]]] = []

    def move_to(self, topic: str, partition: int, offset: int) -> None:
        """The next writes come from this record."""
        self._under_way = (topic, partition, offset)

    def wrote(self) -> None:
        """The record under way has written."""
        if self._under_way is not None:
            topic, partition, offset = self._under_way
            self._batch = self._batch.at(topic, partition, offset + 1)

    def commit(self) -> None:
        """The batch goes into the changelog."""
        source: dict[str, dict[int, tuple[int, int]]] = {}
        for topic, partition, end in self._batch:
            source.setdefault(topic, {})[partition] = (0, end)
        self._headers.append(ChangelogHeaders(1, len(self._headers), 1, source).encode())
        self.give_up()

    def give_up(self) -> None:
        """The batch is lost."""
        self._batch = Position()

    def committed(self) -> Shown:
        """The last records that wrote, as the changelog shows them."""
        return _shown(self._committed())

    def written(self) -> Shown:
        """The same, with those of the batch under way."""
        return _shown(self._committed().merged(self._batch))

    def _committed(self) -> Position:
        position = Position()
        for headers in self._headers:
            for topic, ranges in (source_ranges_of(headers) or {}).items():
                for partition, (_, end) in ranges.items():
                    position = position.at(topic, partition, end)
        return position


def _shown(position: Position) -> Shown:
    shown: dict[str, dict[str, Any]] = {}
    for topic, partition, end in position:
        shown.setdefault(topic, {})[str(partition)] = end - 1
    return shown
