"""A clean-up that hangs inside its transaction, for tests of what it hides."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from harness.broker import Broker
from storekeeper.changelog import committed_ends
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.log_record import LogRecord
from storekeeper.cleanup.conditional_write import KafkaTentativeLog


def begun(broker: Broker, topic: str, partition: int = 0) -> KafkaTentativeLog:
    """A clean-up in its transaction. What others commit to the partition from now on is hidden."""
    headers = ChangelogHeaders(1, 1, 1, {}).encode()
    log = KafkaTentativeLog(broker.kafka, topic).at(partition, 0)
    log.append([LogRecord(0, int(time.time() * 1000), b"expired", None, headers)])
    return log


def ends_when_awaited(hanging: KafkaTentativeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ends the transaction as soon as somebody waits for it. A reader that doesn't wait sees less than there is."""
    played = SimpleNamespace(monotonic=time.monotonic, sleep=lambda _: hanging.abort())
    monkeypatch.setattr(committed_ends, "time", played)
