"""Ends a process when its parent ends, however that happens: killed, crashed or out of memory.

Airflow's scheduler is the parent of its workers, these of the tasks, and these of their jobs. When one of them is
killed, its children get no signal: workers would wait for ever, and a job would go on while Airflow runs it again. So
each process asks the kernel to KILL it when its parent dies. Linux only; elsewhere it does nothing.

Run as `python ends_with_parent.py PARENT_PID PROGRAM ARGUMENT...`, it replaces itself with that program. It uses the
standard library only, since it runs at each start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent_pid: int) -> None:
    """Makes the kernel kill this process when its parent dies; ends it at once if that has already happened."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(128 + signal.SIGKILL)


def have_forks_end_with_parent() -> None:
    """Makes the kernel kill every fork of this process, and their forks, when its parent dies.

    Fork from a thread that lives as long as the process: to the kernel, the parent is the thread.
    """
    parents: list[int] = []
    os.register_at_fork(
        before=lambda: parents.__setitem__(slice(None), [os.getpid()]), after_in_child=lambda: end_with(parents[0])
    )


def main(arguments: list[str]) -> None:
    """Replaces this process with the program."""
    parent_pid, *command = arguments
    end_with(int(parent_pid))
    os.execvp(command[0], command)  # noqa: S606 (an argv, no shell; replacing this process is the point)


if __name__ == "__main__":
    main(sys.argv[1:])
