"""Records that can't be processed go to the app's `<app>-dlq`: unchanged, with headers for their origin and the reason.

| header              | value (UTF-8)                                                            |
|---------------------|--------------------------------------------------------------------------|
| `dlq.topic`         | the topic that the record came from                                      |
| `dlq.partition`     | its partition there                                                      |
| `dlq.offset`        | its offset there                                                         |
| `dlq.repartition`   | of a record behind a repartition: its topic, or that of its shuffle      |
| `dlq.timestamp`     | its timestamp there, epoch milliseconds                                  |
| `dlq.app`           | the app that reports it                                                  |
| `dlq.operator`      | the operator of the topology that failed on it, or that of its topic     |
| `dlq.error.class`   | the kind of error                                                        |
| `dlq.error.message` | the reason, without any of the record's content                          |
| all others          | the record's own, except those of an earlier dead letter that it was     |

A record that the app made and that its topic would refuse has no offset yet: its dead letter lacks partition, offset,
timestamp and operator. A row that had waited in the app, and failed when it was let go, lacks topic, partition and
offset. A record behind a repartition has those of the source record that it comes from, and its own key, value and
timestamp.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from storekeeper.stores.record_context import Header
from storekeeper.topology.records import NOWHERE, DeadLetter, Output

_OWN = "dlq."


class Letters(msgspec.Struct, frozen=True):
    """Dead letters that have their topic and the kind of error in common. `topic` is where the records came from, or
    what would have refused them; empty if they had waited in the app. `reason` is that of one of them, without any of
    the record's content.
    """

    topic: str
    error: str
    reason: str
    count: int = 1


def by_kind(letters: Iterable[Letters]) -> tuple[Letters, ...]:
    """The same dead letters, one entry for each topic and kind of error."""
    kinds: dict[tuple[str, str], Letters] = {}
    for one in letters:
        kind = one.topic, one.error
        first = kinds.get(kind)
        kinds[kind] = one if first is None else msgspec.structs.replace(first, count=first.count + one.count)
    return tuple(kinds.values())


def dead_letter(letter: DeadLetter, *, app: str) -> Output:
    """The output record of a dead letter."""
    record = letter.record
    headers = reason_headers(app, record.topic, letter.error_class, letter.reason)
    if letter.operator:
        headers.append(("dlq.operator", letter.operator.encode()))
    if letter.behind:
        headers.append(("dlq.repartition", letter.behind.encode()))
    if record.offset != NOWHERE:
        headers += [("dlq.partition", b"%d" % record.partition), ("dlq.offset", b"%d" % record.offset)]
    headers.append(("dlq.timestamp", b"%d" % record.timestamp_ms))
    headers += own_headers(record.headers)
    return record.key, record.value, max(record.timestamp_ms, 0), headers


def kinds_of(letters: Iterable[DeadLetter]) -> Iterator[Letters]:
    """What each of some dead letters is, for the log and the metrics."""
    return (Letters(letter.record.topic, letter.error_class, letter.reason) for letter in letters)


def own_headers(headers: Sequence[Header]) -> list[Header]:
    """The headers that a record had before it became a dead letter, and before it was one the last time."""
    return [header for header in headers if not header[0].startswith(_OWN)]


def reason_headers(app: str, topic: str, error_class: str, reason: str) -> list[Header]:
    """The headers that every dead letter has; one without a topic lacks that one."""
    place = [("dlq.topic", topic.encode())] if topic else []
    return [
        *place,
        ("dlq.app", app.encode()),
        ("dlq.error.class", error_class.encode()),
        ("dlq.error.message", reason.encode()),
    ]
