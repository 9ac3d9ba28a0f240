"""Waits for a supervisor in the foreground, and stops its platform on TERM or INT.

Run as `python foreground.py PID PROGRAM ARGUMENT...`: PID is the supervisor, a child of this process, and PROGRAM stops
the platform in its order. The standard library only: it lives as long as the platform. In a container it is process 1,
so it also takes in the processes that others have left behind. PROGRAM is run until it succeeds.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from types import FrameType

_AGAIN_S = 1.0


def main(arguments: list[str]) -> int:
    """Returns 0 if the supervisor was stopped, else 1: what it left behind is stopped then."""
    supervisor, *stop = arguments
    stopping: list[subprocess.Popen[bytes]] = []

    def begin_stop(number: int | None = None, frame: FrameType | None = None) -> None:
        del number, frame
        if not stopping:
            stopping.append(subprocess.Popen(stop, stdin=subprocess.DEVNULL))

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, begin_stop)
    ended, status = os.wait()
    while ended != int(supervisor):
        if stopping and ended == stopping[-1].pid and status != 0:
            # Another command is at work there, such as `storekeeper apply`: the signal still counts when it has ended.
            time.sleep(_AGAIN_S)
            stopping.append(subprocess.Popen(stop, stdin=subprocess.DEVNULL))
        ended, status = os.wait()
    was_stopped = bool(stopping) or status == 0
    if not was_stopped:
        sys.stderr.write("the supervisor has ended by itself: what it left behind is stopped\n")
        begin_stop()
    if stopping:
        stopping[-1].wait()
    return 0 if was_stopped else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
