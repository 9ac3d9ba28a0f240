"""Records of a changelog that are rows for every reader, and that the app's tasks would not write there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from storekeeper.changelog.headers import BATCH_ID
from storekeeper.changelog.log_record import LogRecord
from storekeeper.changelog.partitioner import partition_for
from storekeeper.masked_keys import masked_key
from storekeeper.serdes.keys.row_keys import key_of_row
from storekeeper.stores.store_definitions import ServedKind

_FOREIGN = "of no batch of the app and no clean-up"
_MISPLACED = "whose keys nodes look for in another partition"


@dataclass(slots=True)
class _Found:
    records: int
    first: LogRecord


class ChangelogNotices:
    """Looks at the records of a changelog as they pass."""

    def __init__(self, partitions: int, kind: ServedKind) -> None:
        self._partitions = partitions
        self._kind = kind
        self._found: dict[tuple[int, str], _Found] = {}

    def observed(self, partition: int, records: Iterable[LogRecord]) -> Iterator[LogRecord]:
        """The records of a partition, unchanged."""
        for record in records:
            if not record.is_of_cleanup and not any(name == BATCH_ID for name, _ in record.headers):
                self._note(partition, _FOREIGN, record)
            if not self._is_at_home(partition, record.key or b""):
                self._note(partition, _MISPLACED, record)
            yield record

    @property
    def sentences(self) -> list[str]:
        """A sentence for each partition and kind; keys masked."""
        return [
            f"changelog, partition {partition}: {found.records} records {what}, first at offset {found.first.offset} "
            f"({masked_key(found.first.key or b'')})"
            for (partition, what), found in sorted(self._found.items())
        ]

    def _is_at_home(self, partition: int, row_key: bytes) -> bool:
        key = key_of_row(self._kind, row_key)
        return key is not None and partition_for(key, self._partitions) == partition

    def _note(self, partition: int, what: str, record: LogRecord) -> None:
        found = self._found.setdefault((partition, what), _Found(0, record))
        found.records += 1
