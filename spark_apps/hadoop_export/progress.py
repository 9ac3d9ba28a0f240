"""How far each line item's source has been exported, so that records which the fan-out wrote twice are kept once.

A fan-out task reads one partition of invoices in order, and its records for one partition of `hadoop-sink` arrive there
in that order; only a batch that is run again goes back. So per pair of partitions the place exported last decides: what
isn't behind it has been exported. The places travel in the user metadata of each Delta commit, as JSON:
{"app": "hadoop_export", "places": {"<sink partition>": {"pos/<partition>": [offset, line]}}}.
They outlive the app's generations: a new one that reads the topic from its beginning adds nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import orjson

from spark_apps.hadoop_export.spec import HADOOP_EXPORT
from spark_apps.records.poison import PoisonRecordError


class Place(NamedTuple):
    """Where a record came from: the fan-out's source partition (`<topic>/<partition>`), the offset and line there."""

    source: str
    offset: int
    line: int


def parse_place(source: str | None) -> Place:
    """The place that a record's `source` header names.

    Raises:
        PoisonRecordError: it is None or not of the form `<topic>/<partition>/<offset>/<line>`.
    """
    if source is None:
        raise PoisonRecordError("the source header is missing")
    topic, *numbers = source.split("/")
    if not topic or len(numbers) != 3 or not all(n.isdecimal() and len(n) < 19 for n in numbers):
        raise PoisonRecordError("the source header is malformed")
    partition, offset, line = map(int, numbers)
    return Place(f"{topic}/{partition}", offset, line)


Places = Mapping[int, Mapping[str, tuple[int, int]]]
"""By sink partition and source: the last (offset, line)."""


@dataclass(frozen=True, slots=True)
class ExportProgress:
    """The place exported last, per sink partition and source."""

    places: Places = field(default_factory=dict)

    def encode(self) -> str:
        """The user metadata of a commit."""
        places = {str(partition): sources for partition, sources in self.places.items()}
        content = {"app": HADOOP_EXPORT.name, "places": places}
        return orjson.dumps(content, option=orjson.OPT_SORT_KEYS).decode()

    def advanced(self, places: Iterable[tuple[int, Place]]) -> ExportProgress:
        """This progress after records of these sink partitions and places were exported, in any order."""
        merged = {partition: dict(sources) for partition, sources in self.places.items()}
        for partition, place in places:
            sources = merged.setdefault(partition, {})
            here = place.offset, place.line
            sources[place.source] = max(sources.get(place.source, here), here)
        return ExportProgress(merged)

    @classmethod
    def decode(cls, user_metadata: str | None) -> ExportProgress | None:
        """The progress in a commit's user metadata; None if the commit wasn't made by this app."""
        try:
            content = orjson.loads(user_metadata or "")
            if content["app"] != HADOOP_EXPORT.name:
                return None
            return cls(
                {
                    int(partition): {source: (int(offset), int(line)) for source, (offset, line) in sources.items()}
                    for partition, sources in content["places"].items()
                }
            )
        except (ValueError, TypeError, KeyError, AttributeError):
            return None
