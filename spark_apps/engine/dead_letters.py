"""Records that can't be processed go to the app's `<app>-dlq`: unchanged, with headers for their origin and the reason.

| header              | value (UTF-8)                                             |
|---------------------|-----------------------------------------------------------|
| `dlq.topic`         | the topic that the record came from                       |
| `dlq.partition`     | its partition there                                       |
| `dlq.offset`        | its offset there                                          |
| `dlq.timestamp`     | its timestamp there, epoch milliseconds                   |
| `dlq.app`           | the app that reports it                                   |
| `dlq.error.class`   | the kind of error                                         |
| `dlq.error.message` | the reason, without any of the record's content           |
| `traceparent`       | the record's own, if it has one                           |

A record that the app made and that its topic would refuse has no offset yet: its dead letter lacks partition, offset
and timestamp.
"""

from __future__ import annotations

from state.stores.record_context import Header
from state.topology.records import DeadLetter, Output
from state.trace_context import TRACEPARENT, trace_in


def dead_letter(letter: DeadLetter, *, app: str) -> Output:
    """The output record of a dead letter.

    Args:
        letter: the record and what is wrong with it.
        app: the app that reports it.
    """
    record = letter.record
    place = [
        ("dlq.partition", b"%d" % record.partition),
        ("dlq.offset", b"%d" % record.offset),
        ("dlq.timestamp", b"%d" % record.timestamp_ms),
    ]
    headers = [*reason_headers(app, record.topic, letter.error_class, letter.reason), *place]
    trace = trace_in(record.headers)
    if trace is not None:
        headers.append((TRACEPARENT, trace))
    return record.key, record.value, max(record.timestamp_ms, 0), headers


def reason_headers(app: str, topic: str, error_class: str, reason: str) -> list[Header]:
    """The headers that every dead letter has."""
    return [
        ("dlq.topic", topic.encode()),
        ("dlq.app", app.encode()),
        ("dlq.error.class", error_class.encode()),
        ("dlq.error.message", reason.encode()),
    ]
