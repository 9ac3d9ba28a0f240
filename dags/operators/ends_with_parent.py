"""Processes that end when the one that started them does, however that ends: killed, crashed or out of memory.

Airflow's scheduler is the parent of its workers, these of the tasks, and these of their jobs. When one of them is
killed, the system tells its children nothing: workers would wait for ever, and a job would go on while Airflow runs it
again. So each process asks the kernel for a KILL at its parent's death. Linux only; elsewhere nothing is changed.

As a program, `python ends_with_parent.py PARENT_PID PROGRAM ARGUMENT...`, it becomes another program that ends so. The
standard library only, since it runs at each start.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def end_with(parent_pid: int) -> None:
    """Has this process killed when its parent dies; ends it at once if that has happened already."""
    if sys.platform != "linux":
        return
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent_pid:
        os._exit(128 + signal.SIGKILL)


def have_forks_end_with_parent() -> None:
    """Has every process that is forked from this one, and from those, killed when its parent dies.

    Fork from a thread that lives as long as the process: the kernel means the thread by parent.
    """
    parents: list[int] = []
    os.register_at_fork(
        before=lambda: parents.__setitem__(slice(None), [os.getpid()]), after_in_child=lambda: end_with(parents[0])
    )


def main(arguments: list[str]) -> None:
    """Becomes the program."""
    parent_pid, *command = arguments
    end_with(int(parent_pid))
    os.execvp(command[0], command)  # noqa: S606 (an argv, no shell; replacing this process is the point)


if __name__ == "__main__":
    main(sys.argv[1:])
