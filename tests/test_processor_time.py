"""Processor time is counted of children that are waited for, and of daemons that nobody waits for."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import psutil
import pytest

from harness.waiting import eventually
from tests.processor_time import ProcessorTime

# Longer than what the tests ask for: the kernel counts a process's time in ticks of 10 ms.
_WORK = "import signal, time\nwhile time.process_time() < 0.6: pass\nprint('worked', flush=True)\nsignal.pause()"
_PARENT = (
    "import subprocess, sys\n"
    f"print(subprocess.Popen([sys.executable, '-c', {_WORK!r}]).pid, flush=True)\n"
    "sys.stdin.readline()"
)


def process(program: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def leave(parent: subprocess.Popen[str]) -> None:
    """Lets a process end whose child stays."""
    assert parent.stdin is not None
    parent.stdin.write("leave\n")
    parent.wait(60)


def a_child_is_counted_once() -> None:
    time = ProcessorTime()
    before = time.used_s()
    with process(_WORK) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "worked\n"
        alive = time.used_s()
        child.kill()
        child.wait()
    after = time.used_s()
    assert alive - before >= 0.5
    assert -0.01 < after - alive < 0.4  # sums of floats


def a_daemon_is_counted_after_its_parents_end_and_after_its_own() -> None:
    time = ProcessorTime()
    before = time.used_s()
    with time.watching(), process(_PARENT) as parent:
        assert parent.stdout is not None
        daemon = psutil.Process(int(parent.stdout.readline()))
        try:
            assert parent.stdout.readline() == "worked\n"
            time.used_s()
            leave(parent)
            assert time.used_s() - before >= 0.5
        finally:
            daemon.kill()
        eventually(lambda: not daemon.is_running(), 60, "the daemon has ended")
        assert time.used_s() - before >= 0.5


def a_daemon_that_was_never_seen_below_its_parent_is_known_by_its_mark() -> None:
    time = ProcessorTime()
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("TESTS_PROCESSOR_TIME", time.mark)
        with process(_PARENT) as parent:
            assert parent.stdout is not None
            daemon = psutil.Process(int(parent.stdout.readline()))
            assert parent.stdout.readline() == "worked\n"
            leave(parent)
    try:
        before = sum(psutil.Process().cpu_times()[:4])
        assert time.used_s() >= before + 0.5
    finally:
        daemon.kill()


@pytest.mark.parametrize(
    "check",
    [
        a_child_is_counted_once,
        a_daemon_is_counted_after_its_parents_end_and_after_its_own,
        a_daemon_that_was_never_seen_below_its_parent_is_known_by_its_mark,
    ],
)
def test_in_a_process_without_other_children(check: Callable[[], None]) -> None:
    name = check.__name__
    subprocess.run([sys.executable, "-c", f"from {__name__} import {name}; {name}()"], check=True, timeout=120)
