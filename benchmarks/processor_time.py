"""What processes spend their processor time on: the profile that goes with a figure."""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import psutil

_OTHER = "threads that have ended"
_WORTH_TELLING_US = 0.3
_NUMBERS = re.compile(r"[\d#-]+.*$")
_THREADS = {
    "Executor task l": "Spark's tasks",
    "C": "compiler",
    "GC Thread": "garbage collector",
    "VM Thread": "garbage collector",
    "stream executio": "Spark's planning",
    "data-plane-kafk": "requests",
}


def processor_time(pids: Iterable[int]) -> dict[str, float]:
    """Seconds that processes and all below them have used until now, by role: `<program>: <kind of thread>`.

    A Python worker is the one process below a JVM; threads that ended are counted apart, for they have no name left.
    """
    spent: dict[str, float] = defaultdict(float)
    for pid in pids:
        for process in (psutil.Process(pid), *psutil.Process(pid).children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                for role, seconds in _of_process(process).items():
                    spent[role] += seconds
    return dict(spent)


def spent_since(before: Mapping[str, float], pids: Iterable[int]) -> dict[str, float]:
    """What processes have used since `before`, an earlier result of `processor_time`, by role."""
    spent = {role: seconds - before.get(role, 0.0) for role, seconds in processor_time(pids).items()}
    return {role: seconds for role, seconds in spent.items() if seconds > 0}


def profile(spent: Mapping[str, float], records: int) -> dict[str, float]:
    """Microseconds a record by role, the largest first; what is below a third of one together."""
    parts = {name: seconds / records * 1e6 for name, seconds in sorted(spent.items(), key=lambda s: -s[1])}
    listed = {name: part for name, part in parts.items() if part >= _WORTH_TELLING_US}
    total = sum(parts.values())
    return {**listed, "everything else": total - sum(listed.values()), "in all, on two cores": total}


def _of_process(process: psutil.Process) -> dict[str, float]:
    times = process.cpu_times()
    program = _program(process)
    spent: dict[str, float] = defaultdict(float)
    for thread in process.threads():
        spent[f"{program}: {_kind(process.pid, thread.id)}"] += thread.user_time + thread.system_time
    spent[f"{program}: {_OTHER}"] += max(0.0, times.user + times.system - sum(spent.values()))
    return spent


def _program(process: psutil.Process) -> str:
    command = " ".join(process.cmdline())
    if process.name() == "java":
        return next((name for name in ("kafka.Kafka", "peer.") if name in command), "Spark's JVM")
    return "Python workers" if "worker_daemon" in command else "Python driver"


def _kind(pid: int, thread_id: int) -> str:
    if pid == thread_id:
        return "main"
    try:
        name = Path(f"/proc/{pid}/task/{thread_id}/comm").read_text().strip()
    except OSError:
        return _OTHER
    short = _NUMBERS.sub("", name).strip()
    return next((kind for start, kind in _THREADS.items() if name.startswith(start) and len(start) > 1), None) or (
        "compiler" if re.match(r"C[12] ", name) else short
    )
