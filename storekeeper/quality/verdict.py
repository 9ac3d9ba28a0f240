"""A verdict of the gate, and the files in which verdicts are kept. Free of Spark and of Great Expectations.

One JSON object a file, `<first version>-<last version>.json`, replaced as a whole. It holds expectations and counts,
never a value of the data.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import Self

import msgspec
import orjson

from storekeeper.whole_files import write_whole

_KEPT_PUBLISHED = 2000


class Status(StrEnum):
    """The decision on a batch. A quarantined one stays in the staged table and isn't published.

    A store's snapshot is checked where it is: it is never published, and passes.
    """

    PUBLISHED = "published"
    PASSED = "passed"
    QUARANTINED = "quarantined"


Profile = Mapping[str, Mapping[str, int]]
"""Rows by dimension and bucket; see `storekeeper.quality.profile`."""

WAIVABLE = ("presence", "values", "conditions", "completeness", "drift", "only_grows")
"""The rules that a release may waive, with a reason. Columns, masking and uniqueness can't be waived."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one expectation. `column` is None if it is about the table, `failing_rows` if there is no count.

    `rule` is the kind of expectation; see `WAIVABLE`.
    """

    expectation: str
    column: str | None
    meaning: str
    passed: bool
    failing_rows: int | None = None
    rule: str = ""

    @property
    def is_warning(self) -> bool:
        """Whether a failure is reported without quarantining the batch: late rows may be published."""
        return self.rule == "freshness"

    @property
    def reason(self) -> str:
        """What was not met, with the number of rows if there is one."""
        return self.meaning if self.failing_rows is None else f"{self.meaning} Failing rows: {self.failing_rows}."


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on the rows that the staged versions `first_version` to `last_version`, both inclusive, added.

    For a store both are the version of its snapshot. `staged_id` is the id of the staged table, which a recreated one
    doesn't have; empty if it isn't known, and for a store.
    """

    table: str
    status: Status
    first_version: int
    last_version: int
    rows: int
    decided_at_ms: int
    outcomes: tuple[Outcome, ...] = field(default=())
    profile: Profile = field(default_factory=dict)
    staged_id: str = ""

    @property
    def passed(self) -> bool:
        """Whether the batch met every expectation."""
        return self.status is not Status.QUARANTINED

    @property
    def reasons(self) -> tuple[str, ...]:
        """What was not met, one sentence each, with the number of rows where there is one."""
        return tuple(outcome.reason for outcome in self.outcomes if not outcome.passed and not outcome.is_warning)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Failed expectations that don't quarantine the batch, one sentence each."""
        return tuple(outcome.reason for outcome in self.outcomes if not outcome.passed and outcome.is_warning)

    @property
    def batch(self) -> str:
        """The batch's name."""
        return f"{self.first_version}-{self.last_version}"

    def to_json(self) -> bytes:
        """One JSON object, with `passed`, `reasons` and `warnings` beside the fields."""
        return orjson.dumps({"passed": self.passed, "reasons": self.reasons, "warnings": self.warnings, **asdict(self)})

    @classmethod
    def from_json(cls, content: bytes | str) -> Self:
        """The verdict that `to_json` wrote.

        Raises:
            ValueError: the content is something else.
        """
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ValueError(f"not a verdict: {error}") from error


class BatchArchive:
    """A file for each batch of one table, in a folder. One writer at a time."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def forget(self) -> None:
        """Removes all files: the table was recreated."""
        for path in self._files():
            path.unlink()

    def _files(self) -> list[Path]:
        """All files, that of the oldest batch first."""
        return sorted(self._folder.glob("*-*.json"))

    def _file(self, first_version: int, last_version: int) -> Path:
        return self._folder / f"{first_version:012d}-{last_version:012d}.json"


class VerdictArchive(BatchArchive):
    """The verdicts on one table's batches."""

    def quarantined(self) -> list[Verdict]:
        """The verdicts on all quarantined batches, the oldest first."""
        verdicts = (Verdict.from_json(path.read_bytes()) for path in self._files())
        return [verdict for verdict in verdicts if not verdict.passed]

    def published_before(self, version: int, most: int) -> list[Verdict]:
        """The newest verdicts, at most `most`, on published batches before a staged version."""
        earlier = (verdict for verdict in self.newest_first() if verdict.passed and verdict.last_version < version)
        return list(islice(earlier, most))

    def last(self) -> Verdict | None:
        """The verdict on the newest staged versions; None if there is none."""
        return next(self.newest_first(), None)

    def last_version(self) -> int:
        """The newest staged version that a verdict is kept of; -1 if there is none."""
        return max(map(_last_version, self._files()), default=-1)

    def put(self, verdict: Verdict) -> Path:
        """Keeps a verdict, replacing an equal one in one step; removes the oldest published ones if there are many."""
        path = self._file(verdict.first_version, verdict.last_version)
        write_whole(path, verdict.to_json())
        self._prune()
        return path

    def newest_first(self) -> Iterator[Verdict]:
        """All verdicts, that on the newest version first."""
        for path in sorted(self._files(), key=_last_version, reverse=True):
            yield Verdict.from_json(path.read_bytes())

    def _prune(self) -> None:
        for path in self._files()[:-_KEPT_PUBLISHED]:
            if Verdict.from_json(path.read_bytes()).passed:
                path.unlink()


def _last_version(path: Path) -> int:
    return int(path.stem.partition("-")[2])
