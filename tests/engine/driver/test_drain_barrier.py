from __future__ import annotations

import threading
from typing import Any

import pytest

from storekeeper.engine.driver.drain_barrier import BatchRefusedError, DrainBarrier

NO_FRAME: Any = None


def test_batches_pass_until_the_gate_is_closed() -> None:
    passed: list[int] = []
    barrier = DrainBarrier(lambda _, batch_id: passed.append(batch_id))
    barrier(NO_FRAME, 0)
    barrier.close()
    with pytest.raises(BatchRefusedError):
        barrier(NO_FRAME, 1)
    assert passed == [0]
    assert not barrier.busy


def test_a_batch_that_is_inside_goes_on() -> None:
    inside, go_on = threading.Event(), threading.Event()
    done: list[int] = []

    def process(_: object, batch_id: int) -> None:
        inside.set()
        assert go_on.wait(10)
        done.append(batch_id)

    barrier = DrainBarrier(process)
    thread = threading.Thread(target=barrier, args=(None, 7))
    thread.start()
    assert inside.wait(10)
    barrier.close()
    assert barrier.busy
    assert done == []
    go_on.set()
    thread.join(10)
    assert done == [7]
    assert not barrier.busy


def test_a_batch_that_fails_leaves_the_gate() -> None:
    def process(_: object, __: int) -> None:
        raise ValueError("no")

    barrier = DrainBarrier(process)
    with pytest.raises(ValueError, match="no"):
        barrier(NO_FRAME, 0)
    assert not barrier.busy
