"""The demo's verdict as `demo-report.json` and for people."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from demo.comparison import Difference
from storekeeper.whole_files import write_whole

_SHOWN_DIFFERENCES = 1000


@dataclass(slots=True)
class DemoReport:
    """What the demo did and found. `verdict` is `green` without differences, `red` with some, until then `unfinished`.

    `durations_s` holds seconds per phase. `rows_per_second` counts invoices from the first one published until all had
    been processed by every app.
    """

    purchases: int
    poison: int
    verdict: str = "unfinished"
    error: str | None = None
    counts: dict[str, int] = field(default_factory=dict)
    durations_s: dict[str, float] = field(default_factory=dict)
    rows_per_second: float | None = None
    quality: str | None = None
    difference_count: int = 0
    differences_by_check: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    @property
    def is_green(self) -> bool:
        """Whether everything was compared and nothing differed."""
        return self.verdict == "green"

    @contextmanager
    def phase(self, name: str, clock: Callable[[], float] = time.monotonic) -> Iterator[None]:
        """Measures a phase, even if it fails."""
        begun = clock()
        try:
            yield
        finally:
            self.durations_s[name] = round(clock() - begun, 2)

    def conclude(self, differences: Sequence[Difference]) -> None:
        """Takes the outcome of the comparison."""
        self.difference_count = len(differences)
        self.differences_by_check = dict(Counter(difference.check for difference in differences))
        self.differences = [str(difference) for difference in differences[:_SHOWN_DIFFERENCES]]
        self.verdict = "red" if differences else "green"

    def as_json(self) -> dict[str, Any]:
        """The content of the file. Fields may be added, never renamed."""
        return asdict(self) | {"duration_s": round(sum(self.durations_s.values()), 2)}

    def write(self, path: Path) -> None:
        """Writes the file, replacing an earlier one in one step."""
        write_whole(path, f"{json.dumps(self.as_json(), indent=2)}\n".encode())
