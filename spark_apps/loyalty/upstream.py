"""How far the purchases of each partition of `pos` have been read: what tells repeats, and what an answer contains.

The purchases of one partition of `pos` arrive in one partition of the repartition topic in the order of their
offsets; only a fan-out batch that is run again, written at least once, goes back. So what isn't behind the mark of its
partitions has been counted.

The marks lie beside the checkpoint, a file for each partition of the repartition topic, replaced as a whole:
`checkpoints/loyalty/gen-<n>.upstream/<partition>.json`: {"<batch>": {"<partition of pos>": next offset}}. A batch that
is run again starts from the marks of the batch before and writes the same ones again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import orjson

from spark_apps.errors import UnusableCheckpointError
from spark_apps.generations.errors import NotesGoneError
from spark_apps.records.purchase import PrimePurchase, Reached

Marks = Mapping[int, int]
"""By partition of `pos`: the offset up to which all purchases have been read, exclusive."""

_KEPT_BATCHES = 4


def unseen(records: Iterable[PrimePurchase | Reached], marks: dict[int, int]) -> Iterator[PrimePurchase]:
    """The purchases that are not behind `marks`, which go on with them. Records come in the order of their topic."""
    for record in records:
        reached = marks.get(record.partition, 0)
        if record.offset >= reached:
            marks[record.partition] = record.offset + 1
            if isinstance(record, PrimePurchase):
                yield record


def contained(marks: Iterable[Marks]) -> dict[int, int]:
    """Up to where all purchases of each partition of `pos` are in, given the marks of every repartition partition."""
    listed = list(marks)
    partitions = {partition for each in listed for partition in each}
    found = {partition: min(each.get(partition, 0) for each in listed) for partition in sorted(partitions)}
    return {partition: offset for partition, offset in found.items() if offset}


def contained_ranges(before: Iterable[Marks], after: Iterable[Marks]) -> dict[int, tuple[int, int]]:
    """By partition of `pos`: what a batch adds to what is contained, the end exclusive."""
    start = contained(before)
    return {partition: (start.get(partition, 0), end) for partition, end in contained(after).items()}


def marks_dir(checkpoint_dir: Path) -> Path:
    """Where the marks of the generation with that checkpoint lie."""
    return checkpoint_dir.with_name(checkpoint_dir.name + ".upstream")


class UpstreamMarks:
    """The marks of an app's generation, in `folder`. One task at a time writes a partition's."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def before(self, batch_id: int, partition: int) -> dict[int, int]:
        """The marks of a partition of the repartition topic at the start of a batch.

        Raises:
            UnusableCheckpointError: the file is damaged.
        """
        listed = self._read(partition)
        newest = max((batch for batch in listed if batch < batch_id), default=None)
        return {} if newest is None else listed[newest]

    def after(self, batch_id: int) -> dict[str, dict[str, int]]:
        """The marks of all partitions of the repartition topic at the end of a finished batch, as JSON has them.

        Raises:
            NotesGoneError: the app has gone on, and keeps the marks of later batches only.
            UnusableCheckpointError: a file is damaged.
        """
        found = {}
        for file in sorted(self._folder.glob("*.json")):
            listed = self._read(int(file.stem))
            if listed and min(listed) > batch_id:
                msg = f"{file} has no marks of batch {batch_id} any more: take those of a later one"
                raise NotesGoneError(msg)
            marks = self.before(batch_id + 1, int(file.stem))
            found[file.stem] = {str(partition): offset for partition, offset in marks.items()}
        return found

    def write(self, batch_id: int, partition: int, marks: Marks) -> None:
        """Keeps the marks at the end of a batch."""
        listed = {batch: was for batch, was in self._read(partition).items() if batch < batch_id}
        listed[batch_id] = dict(marks)
        kept = {batch: listed[batch] for batch in sorted(listed)[-_KEPT_BATCHES:]}
        file = self._file(partition)
        file.parent.mkdir(parents=True, exist_ok=True)
        draft = file.with_name(file.name + ".new")
        draft.write_bytes(orjson.dumps(kept, option=orjson.OPT_NON_STR_KEYS))
        draft.replace(file)

    def _read(self, partition: int) -> dict[int, dict[int, int]]:
        file = self._file(partition)
        try:
            content = orjson.loads(file.read_bytes())
            return {int(batch): {int(p): int(o) for p, o in marks.items()} for batch, marks in content.items()}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, AttributeError) as error:
            msg = f"{file} can't be read: put it back from a copy, or start a new generation (STOREKEEPER_GENERATION)"
            raise UnusableCheckpointError(msg) from error

    def _file(self, partition: int) -> Path:
        return self._folder / f"{partition}.json"
