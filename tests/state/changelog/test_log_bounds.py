from __future__ import annotations

from concurrent.futures import Future
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from state.changelog.log_bounds import told_offset


def told(offset: int) -> Future[Any]:
    made: Future[Any] = Future()
    made.set_result(SimpleNamespace(offset=offset))
    return made


def test_an_offset_is_what_was_told() -> None:
    assert [told_offset(told(offset), 1) for offset in (0, 7)] == [0, 7]


def test_no_answer_is_no_offset() -> None:
    # This is what librdkafka gives of a broker that is stopped: no error, and OFFSET_INVALID.
    with pytest.raises(KafkaException) as caught:
        told_offset(told(-1001), 1)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT


def test_an_answer_that_never_comes_is_not_waited_for() -> None:
    with pytest.raises(KafkaException) as caught:
        told_offset(Future(), -1)
    assert caught.value.args[0].code() == KafkaError._TIMED_OUT
