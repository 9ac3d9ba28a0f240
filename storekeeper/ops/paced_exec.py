"""Replaces itself with another program, after a pause that grows while that program keeps ending soon after its start.

With a folder it also waits until the disk of that has room.

The supervisor honours `exitcodes` only for processes that count as started, and backs off only from those that don't.
Apps and nodes need both: no restart after a configuration error, however soon it shows, and ever slower restarts
after other errors. So they count as started at once (`startsecs=0`), and this program paces them.

Kafka must not start on a full disk: it recovers the logs that it had open, and where an index can't be written it takes
the log's segment for damaged and empties it, the one with all topics of the cluster, too. So a broker that ended
because its disk was full isn't started again before somebody has freed some space.

Run as `python paced_exec.py STATE_FILE [--room FOLDER MIB] PROGRAM ARGUMENT...`. It replaces itself by `exec`: same
process id, no parent left in between. The standard library only, since it runs at each start.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

SETTLED_S = 30.0
"""A program that ran this long has started well: the next start is immediate."""

LONGEST_PAUSE_S = 60.0
ROOM = "--room"
_POLL_S = 1.0


def quick_ends(started_s: float | None, ends: int, now_s: float) -> int:
    """How many runs in a row ended before `SETTLED_S`, counting the one that began at `started_s` (None: no run yet).

    `ends` is the number before that run; all times are epoch seconds.
    """
    if started_s is None or not 0 <= now_s - started_s < SETTLED_S:
        return 0
    return ends + 1


def pause_s(ends: int) -> float:
    """Seconds to wait after `ends` quick ends: none, then 1, 2, 4 and so on up to a minute."""
    return 0.0 if ends == 0 else min(LONGEST_PAUSE_S, 2.0 ** (ends - 1))


def next_pause_s(state_file: Path, now_s: float, command: list[str]) -> float:
    """Records a start of `command` at `now_s` in `state_file` and returns how long to wait before it.

    The record has the settings that the program is about to read. It is the longest pause if the start can't be
    recorded: a full disk ends programs, and takes no record of them.
    """
    try:
        previous = json.loads(state_file.read_text("utf-8"))
        ends = quick_ends(float(previous["started_s"]), int(previous["quick_ends"]), now_s)
    except (OSError, ValueError, KeyError, TypeError):
        ends = 0
    pause = pause_s(ends)
    partial = state_file.with_name(f"{state_file.name}.partial")
    try:
        started = {"started_s": now_s + pause, "quick_ends": ends, "command": command, "settings": _settings()}
        partial.write_text(json.dumps(started), "utf-8")
        partial.replace(state_file)
    except OSError as error:
        sys.stderr.write(f"the start can't be recorded ({error})\n")
        return LONGEST_PAUSE_S
    return pause


def _settings() -> str:
    """The settings that this process was given, as text."""
    path = os.environ.get("STOREKEEPER_CONFIG")  # noqa: TID251 (its settings class is not loaded here)
    try:
        return Path(path).read_text("utf-8") if path else ""
    except OSError:
        return ""


def await_room(folder: str, mib: int) -> None:
    """Waits until the disk of a folder has that much room."""
    if shutil.disk_usage(folder).free < mib << 20:
        sys.stderr.write(f"the disk under {folder} is full: this starts when {mib} MiB are free\n")
        sys.stderr.flush()
        while shutil.disk_usage(folder).free < mib << 20:
            time.sleep(_POLL_S)


def main(arguments: list[str]) -> None:
    """Waits if needed, then replaces this process with the program."""
    state_file, *command = arguments
    pause = next_pause_s(Path(state_file), time.time(), command)
    if pause:
        sys.stderr.write(f"ended soon after its start, or left no record of it: the next try is in {pause:.0f} s\n")
        sys.stderr.flush()
        time.sleep(pause)
    if command[0] == ROOM:
        _, folder, mib, *command = command
        await_room(folder, int(mib))
    os.execvp(command[0], command)  # noqa: S606 (an argv, no shell; replacing this process is the point)


if __name__ == "__main__":
    main(sys.argv[1:])
