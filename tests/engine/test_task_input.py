from __future__ import annotations

import socket

import pytest

from storekeeper.engine import task_input
from storekeeper.engine.task_input import TruncatedInputError, check_input_complete, remembering


def test_rows_that_end_because_the_jvm_ended_are_not_all(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, jvm = socket.socketpair()
    monkeypatch.setattr(task_input, "_JVM", [])
    check_input_complete()  # no worker of Spark's
    with ours:
        assert remembering(lambda connection, _: connection.fileno())(ours, True) == ours.fileno()
        check_input_complete()
        jvm.send(b"what follows the rows")
        check_input_complete()
        ours.recv(100)
        jvm.close()
        with pytest.raises(TruncatedInputError):
            check_input_complete()
