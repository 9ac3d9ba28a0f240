"""What goes on beside a test's block tells when it could not go on."""

from __future__ import annotations

import threading

import pytest

from harness.meanwhile import repeating


def test_a_step_is_repeated_until_the_block_ends() -> None:
    steps: list[int] = []
    several = threading.Event()

    def step() -> None:
        steps.append(1)
        if len(steps) == 3:
            several.set()

    with repeating(step, 0.001):
        assert several.wait(30)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("repeating")]


def test_a_step_that_fails_fails_the_test() -> None:
    failed = threading.Event()

    def step() -> None:
        failed.set()
        raise RuntimeError("nothing was seen from here on")

    with pytest.raises(RuntimeError, match="nothing was seen"), repeating(step, 0.001):
        assert failed.wait(30)
