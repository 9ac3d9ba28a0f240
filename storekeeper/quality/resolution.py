"""Somebody's decision on a quarantined batch, and the files in which decisions are kept.

One JSON object a file, `<first version>-<last version>.json`. It holds who, why, rules and counts, never a value of the
data. Free of Spark and of Great Expectations.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec
import orjson

from storekeeper.errors import InvalidArgumentError
from storekeeper.quality.verdict import BatchArchive, Outcome, VerdictArchive
from storekeeper.whole_files import write_whole


class Action(StrEnum):
    """What was decided: to publish the batch after all, or never."""

    RELEASED = "released"
    DISCARDED = "discarded"


@dataclass(frozen=True, slots=True)
class Resolution:
    """The decision on a quarantined batch.

    `accepted` are the waived rules, `outcomes` the results of the check before the release.
    """

    table: str
    action: Action
    first_version: int
    last_version: int
    by: str
    reason: str
    accepted: tuple[str, ...]
    rows: int
    decided_at_ms: int
    outcomes: tuple[Outcome, ...] = ()

    @property
    def batch(self) -> str:
        """The batch's name."""
        return f"{self.first_version}-{self.last_version}"

    def to_json(self) -> bytes:
        """One JSON object."""
        return orjson.dumps({"batch": self.batch, **asdict(self)})

    @classmethod
    def from_json(cls, content: bytes) -> Self:
        """The resolution that `to_json` wrote.

        Raises:
            ValueError: the content is something else.
        """
        try:
            return msgspec.json.decode(content, type=cls)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise ValueError(f"not a decision on a batch: {error}") from error


class ResolutionArchive(BatchArchive):
    """The resolutions on one table's batches."""

    def get(self, first_version: int, last_version: int) -> Resolution | None:
        """The decision on a batch; None if there is none yet."""
        try:
            return Resolution.from_json(self._file(first_version, last_version).read_bytes())
        except FileNotFoundError:
            return None

    def put(self, resolution: Resolution) -> None:
        """Keeps a decision, replacing an equal one in one step."""
        write_whole(self._file(resolution.first_version, resolution.last_version), resolution.to_json())


def last_good_version(run_dir: Path, name: str) -> int | None:
    """The newest version of a store's snapshots that passed or was released. None: every version of the table is good,
    as the gate publishes it.

    Raises:
        UnknownStoreError: there is no such store, nor a table that the gate publishes.
        InvalidArgumentError: no version of the store's snapshots is good yet.
    """
    from storekeeper.apps.registry import gated_tables, store_named  # noqa: PLC0415 (it loads all apps)

    if name in gated_tables():
        return None
    store_named(name)
    folder = run_dir / "quality"
    verdicts, resolutions = VerdictArchive(folder / "verdicts" / name), ResolutionArchive(folder / "resolutions" / name)
    newest = next(good_versions(verdicts, resolutions), None)
    if newest is None:
        msg = f"no version of table {name} is good yet: `storekeeper check {name}` checks the newest"
        raise InvalidArgumentError(msg)
    return newest


def good_versions(verdicts: VerdictArchive, resolutions: ResolutionArchive) -> Iterator[int]:
    """The versions of a store's snapshots that passed or were released, the newest first."""
    for verdict in verdicts.newest_first():
        decided = resolutions.get(verdict.first_version, verdict.last_version)
        if verdict.passed or (decided is not None and decided.action is Action.RELEASED):
            yield verdict.last_version
