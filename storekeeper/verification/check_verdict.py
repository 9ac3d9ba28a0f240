"""The verdict of a check, kept where all verdicts are: `quality/verdicts/<check>/<subject>/<decided_at_ms>.json`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import orjson

from storekeeper.names import checked_name
from storekeeper.whole_files import write_whole

_KEPT = 200


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """What a check found. `reasons` say what is wrong, one sentence each, without data values. `details` are figures,
    as JSON's own types.
    """

    check: str
    subject: str
    passed: bool
    reasons: tuple[str, ...]
    decided_at_ms: int
    details: Mapping[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """The verdict as JSON's own types."""
        return asdict(self)


def together(subject: str, verdicts: Sequence[CheckVerdict]) -> CheckVerdict:
    """Merges the verdicts on the parts of a subject: passes if they all do. A single one is returned as it is."""
    if len(verdicts) == 1:
        return verdicts[0]
    return CheckVerdict(
        verdicts[0].check,
        subject,
        all(verdict.passed for verdict in verdicts),
        tuple(f"{verdict.subject}: {reason}" for verdict in verdicts for reason in verdict.reasons),
        max(verdict.decided_at_ms for verdict in verdicts),
        {"stores": {verdict.subject: dict(verdict.details) for verdict in verdicts}},
    )


def put_verdict(run_dir: Path, verdict: CheckVerdict) -> Path:
    """Saves a verdict atomically; deletes the oldest ones beyond a limit."""
    folder = verdict_folder(run_dir, verdict.check, verdict.subject)
    # The last one written is the newest, also after a clock that was ahead is put right.
    newest = max((int(old.stem) for old in folder.glob("*.json") if old.stem.isdecimal()), default=-1)
    path = folder / f"{max(verdict.decided_at_ms, newest + 1):015d}.json"
    write_whole(path, orjson.dumps(verdict.as_dict(), option=orjson.OPT_NON_STR_KEYS))
    for old in sorted(folder.glob("*.json"))[:-_KEPT]:
        old.unlink()
    return path


def last_verdict(folder: Path) -> CheckVerdict | None:
    """The newest verdict in a `verdict_folder`; None if there is none.

    Raises:
        ValueError: the newest file is not a verdict.
    """
    files = sorted(folder.glob("*.json"))
    if not files:
        return None
    try:
        return msgspec.json.decode(files[-1].read_bytes(), type=CheckVerdict)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{files[-1]} is not a verdict of a check") from error


def verdict_folder(run_dir: Path, check: str, subject: str) -> Path:
    """Where the verdicts of a check on a subject are."""
    return run_dir / "quality" / "verdicts" / checked_name(check) / checked_name(subject)
