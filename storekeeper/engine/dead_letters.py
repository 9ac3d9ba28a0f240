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

from collections.abc import Sequence

from storekeeper.stores.record_context import Header
from storekeeper.topology.records import NOWHERE, DeadLetter, Output

_OWN = "dlq."


def dead_letter(letter: DeadLetter, *, app: str) -> Output:
    """The output record of a dead letter.

    Args:
        letter: the record and what is wrong with it.
        app: the app that reports it.
    """
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
