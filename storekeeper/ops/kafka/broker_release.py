"""Whether a broker is recent enough. Kafka tells no client its release, only which versions of each request it answers.

Librdkafka learns them when it connects and decides by them what it can do, but shows them in its debug log alone. A
producer recovers from a lost id without an error since version 3 of InitProducerId (KIP-360). That came with Kafka 2.5,
later than anything else that apps, nodes and jobs ask for.
"""

from __future__ import annotations

import logging
import re

from storekeeper.errors import ConfigurationError
from storekeeper.kafka.clients import new_admin
from storekeeper.kafka.connection import Kafka

_DEBUG = 7  # a level of syslog
_NEEDED, _RELEASE = 3, "2.5"
_ANSWERED = re.compile(r"ApiKey InitProducerId \(22\) Versions \d+\.\.(\d+)")


class _Lines(logging.Handler):
    """Keeps what a client logs."""

    def __init__(self) -> None:
        super().__init__()
        self.kept: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.kept.append(record.getMessage())


def check_release(kafka: Kafka, timeout_s: float) -> str:
    """Checks that the broker that answers first is recent enough. Returns what was found, a sentence.

    Raises:
        ConfigurationError: it is too old.
        KafkaException: no broker answers within `timeout_s`.
    """
    lines, log = _Lines(), logging.Logger(__name__)  # noqa: LOG001 (of this client alone: nobody else gets its lines)
    log.addHandler(lines)
    admin = new_admin(kafka, {"debug": "feature", "log_level": _DEBUG, "logger": log})
    admin.list_topics(timeout=timeout_s)
    admin.poll(0)
    return decide(kafka, lines.kept)


def decide(kafka: Kafka, lines: list[str]) -> str:
    """What the lines of a client's debug log say about the release. Result and errors are those of `check_release`."""
    found = [int(match[1]) for line in lines if (match := _ANSWERED.search(line))]
    if not found:
        return "the release of the brokers isn't known: this version of librdkafka doesn't show what they answer"
    if min(found) < _NEEDED:
        msg = f"Kafka at {kafka} is older than {_RELEASE}: its brokers must be upgraded to {_RELEASE} or later"
        raise ConfigurationError(msg)
    return f"the brokers answer the requests of Kafka {_RELEASE}; no client learns their exact release"
