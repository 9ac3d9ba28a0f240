from __future__ import annotations

import threading

import pytest

from spark_apps.gate import BatchGate, BatchRefusedError


def test_batches_pass_until_the_gate_is_closed() -> None:
    passed: list[int] = []
    gate = BatchGate(lambda _, batch_id: passed.append(batch_id))
    gate(None, 0)
    gate.close()
    with pytest.raises(BatchRefusedError):
        gate(None, 1)
    assert passed == [0]
    assert not gate.busy


def test_a_batch_that_is_inside_goes_on() -> None:
    inside, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def process(_: object, batch_id: int) -> None:
        inside.set()
        assert go_on.wait(10)
        done.append(batch_id)

    gate = BatchGate(process)
    thread = threading.Thread(target=gate, args=(None, 7))
    thread.start()
    assert inside.wait(10)
    gate.close()
    assert gate.busy
    assert done == []
    go_on.set()
    thread.join(10)
    assert done == [7]
    assert not gate.busy


def test_a_batch_that_fails_leaves_the_gate() -> None:
    def process(_: object, __: int) -> None:
        raise ValueError("no")

    gate = BatchGate(process)
    with pytest.raises(ValueError, match="no"):
        gate(None, 0)
    assert not gate.busy
