"""Which processes have ended by themselves since the platform was started, read from the supervisor's log."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from deploy.layout import RunLayout

_LINE = re.compile(r"(\S+ \S+),(\d{3}) \w+ (supervisord started|exited: (\S+) \((.*); (?:not )?expected\))")


@dataclass(frozen=True, slots=True)
class Exits:
    """How often a process has ended by itself, and how and when it last did."""

    process: str
    count: int
    last: str
    last_at_ms: int


def exits(layout: RunLayout) -> list[Exits]:
    """The processes that have ended by themselves, the latest first. Those stopped on purpose are left out."""
    try:
        lines = (layout.supervisor / "supervisord.log").read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return exits_in(lines)


def exits_in(lines: Iterable[str]) -> list[Exits]:
    """The same from the lines of the supervisor's log, since its last start."""
    found: dict[str, Exits] = {}
    for line in lines:
        match = _LINE.match(line)
        if match is None:
            continue
        if match[4] is None:
            found.clear()
            continue
        # The log has local time, which is what a datetime without a zone stands for.
        at_ms = int(datetime.fromisoformat(match[1]).timestamp() * 1000) + int(match[2])
        before = found.pop(match[4], None)
        found[match[4]] = Exits(match[4], 1 if before is None else before.count + 1, match[5], at_ms)
    return list(reversed(found.values()))
