"""Replaces itself with another program as soon as its disk has room.

Kafka must not start on a full disk: it recovers the logs that it had open, and where an index can't be written it takes
the log's segment for damaged and empties it, the one with all topics of the cluster, too. So a broker that ended
because its disk was full isn't started again before somebody has freed some space.

Run as `python exec_with_room.py FOLDER MIB PROGRAM ARGUMENT...`: it waits until the disk of `FOLDER` has `MIB` free. It
replaces itself by `exec`: same process id, no parent left in between. The standard library only, since it runs at each
start.
"""

from __future__ import annotations

import os
import shutil
import sys
import time

_POLL_S = 1.0


def main(arguments: list[str]) -> None:
    """Waits if needed, then replaces this process with the program."""
    folder, mib, *command = arguments
    least = int(mib) << 20
    if shutil.disk_usage(folder).free < least:
        sys.stderr.write(f"the disk under {folder} is full: this starts when {mib} MiB are free\n")
        sys.stderr.flush()
        while shutil.disk_usage(folder).free < least:
            time.sleep(_POLL_S)
    os.execvp(command[0], command)  # noqa: S606 (an argv, no shell; replacing this process is the point)


if __name__ == "__main__":
    main(sys.argv[1:])
