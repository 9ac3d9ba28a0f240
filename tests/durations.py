"""Records what each test file takes: `make test-durations` writes tests/durations.json.

Processor time is steadier than wall time. What a fixture that files share takes to set up stands under its own name:
which file needs it first depends on the selection of tests.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.processor_time import ProcessorTime

PROJECT = Path(__file__).resolve().parents[1]
RECORD = Path(__file__).parent / "durations.json"


@dataclass(frozen=True, slots=True)
class Duration:
    """Seconds of processors and of the clock."""

    processor_s: float = 0.0
    wall_s: float = 0.0

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.processor_s + other.processor_s, self.wall_s + other.wall_s)

    def __sub__(self, other: Duration) -> Duration:
        return Duration(self.processor_s - other.processor_s, self.wall_s - other.wall_s)


def read_record(path: Path = RECORD) -> dict[str, Duration]:
    """What was recorded, by file or shared fixture."""
    return {name: Duration(**found) for name, found in json.loads(path.read_text()).items()} if path.exists() else {}


@dataclass(slots=True, eq=False)
class DurationRecorder:
    """A pytest plugin that adds what it measured to the record when the session ends.

    A file with a failure keeps what was recorded of it before. A file that is gone has no place in the record.
    """

    path: Path = RECORD
    root: Path = PROJECT
    taken: dict[str, Duration] = field(default_factory=dict)
    _processors: ProcessorTime = field(default_factory=ProcessorTime)
    _watching: ExitStack = field(default_factory=ExitStack)
    _failed: set[str] = field(default_factory=set)
    _file: str = ""
    _since: Duration = Duration()
    _apart: Duration = Duration()
    """What fixtures of a wider scope have taken since then."""

    def pytest_sessionstart(self) -> None:
        """Begins to look at processes."""
        self._watching.enter_context(self._processors.watching())

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        """Measures a file from its first test to its last."""
        name = _file_of(item.nodeid)
        if name != self._file:
            self._file, self._since, self._apart = name, self._now(), Duration()
        result = yield
        if nextitem is None or _file_of(nextitem.nodeid) != name:
            self._add(name, self._now() - self._since - self._apart)
            self._file = ""
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Iterator[None]:
        """Measures a fixture that files share."""
        if fixturedef.scope not in {"session", "package"}:
            return (yield)
        before = self._now()
        result = yield
        taken = self._now() - before
        self._apart += taken
        self._add(f"fixture {fixturedef.argname}", taken)
        return result

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Remembers which files failed."""
        if report.failed:
            self._failed.add(_file_of(report.nodeid))

    def pytest_sessionfinish(self) -> None:
        """Writes the record."""
        self._watching.close()
        with _alone(self.path.parent):
            taken = {name: found for name, found in self.taken.items() if name not in self._failed}
            lines = [
                f'  {json.dumps(name)}: {{"processor_s": {found.processor_s:.1f}, "wall_s": {found.wall_s:.1f}}}'
                for name, found in sorted({**read_record(self.path), **taken}.items())
                if name.startswith("fixture ") or (self.root / name).exists()
            ]
            self.path.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    def _now(self) -> Duration:
        return Duration(self._processors.used_s(), time.monotonic())

    def _add(self, name: str, taken: Duration) -> None:
        self.taken[name] = self.taken.get(name, Duration()) + taken


def _file_of(test: str) -> str:
    """The file that has a test, which may be written elsewhere."""
    return test.partition("::")[0]


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Parts of the tests that run at the same time write one after the other."""
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX)
        yield
    finally:
        os.close(place)
