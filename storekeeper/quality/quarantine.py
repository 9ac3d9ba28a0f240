"""Lists, releases and discards quarantined batches.

A release checks the batch again with the current rules and settings. It is refused if the batch breaks a rule that
isn't waived; columns, masking and uniqueness can't be waived. A released batch is appended in one commit of its own,
which records who decided and why; a released snapshot stays where it is, and counts as good. A release may be repeated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from storekeeper.clock import Clock
from storekeeper.quality.errors import ReleaseRefusedError
from storekeeper.quality.gate import Batch, Publication
from storekeeper.quality.resolution import Action, Resolution, ResolutionArchive
from storekeeper.quality.settings import QualitySettings
from storekeeper.quality.table_gate import PUBLISHER
from storekeeper.quality.verdict import WAIVABLE, Outcome, Verdict, VerdictArchive

if TYPE_CHECKING:
    from storekeeper.quality.snapshot_gate import SnapshotGate
    from storekeeper.quality.table_gate import TableGate

    Gate: TypeAlias = TableGate | SnapshotGate


@dataclass(frozen=True, slots=True)
class Decision:
    """Who decides on a quarantined batch, why, and which rules a release waives."""

    by: str
    reason: str
    accepted: tuple[str, ...] = ()


class Quarantine:
    """The quarantined batches of one table. Hold the gate's lease while you decide."""

    def __init__(self, table: str, gate: Gate, settings: QualitySettings, clock: Clock) -> None:
        self._table = table
        self._gate = gate
        self._clock = clock
        self._verdicts = VerdictArchive(settings.verdict_dir(table))
        self._resolutions = ResolutionArchive(settings.resolution_dir(table))

    def batches(self) -> list[tuple[Verdict, Resolution | None]]:
        """All quarantined batches, the oldest first, each with the decision on it; None if there is none yet."""
        return [(verdict, self.resolution_of(verdict)) for verdict in self._verdicts.quarantined()]

    def resolution_of(self, verdict: Verdict) -> Resolution | None:
        """The decision on a quarantined batch, or None. Archives a release that a crash left unarchived."""
        kept = self._resolutions.get(verdict.first_version, verdict.last_version)
        if kept is None and (metadata := self._gate.metadata_of(_publisher(verdict.batch))) is not None:
            kept = Resolution.from_json(metadata)
            self._resolutions.put(kept)
        return kept

    def find(self, batch: str) -> tuple[Verdict, Resolution | None]:
        """A batch by its name, such as `12-14`.

        Raises:
            ReleaseRefusedError: there is none of that name.
        """
        for verdict, resolution in self.batches():
            if verdict.batch == batch:
                return verdict, resolution
        open_ones = [verdict.batch for verdict, resolution in self.batches() if resolution is None]
        msg = f"table {self._table} has no quarantined batch {batch}; undecided ones: {', '.join(open_ones) or 'none'}"
        raise ReleaseRefusedError(msg)

    def check_again(self, batch: str) -> tuple[Outcome, ...]:
        """The outcomes with the current rules. Changes nothing; raises what `find` and the gate raise."""
        verdict, _ = self.find(batch)
        return self._gate.check_again(_versions(verdict), lambda _: None)

    def release(self, batch: str, decision: Decision) -> Resolution:
        """Publishes a batch after checking it again. Repeating a release returns what was decided.

        Raises:
            ReleaseRefusedError: no such batch, discarded before, a waiver for a rule that can't be waived, or a broken
                rule that isn't waived. Nothing was published.
            ValidationError, StagedTableError: as the gate's `decide` does.
        """
        verdict, earlier = self.find(batch)
        if earlier is not None:
            return _as_decided(earlier, Action.RELEASED)
        _check_decision(decision)
        decided: list[Resolution] = []

        def publication(outcomes: tuple[Outcome, ...]) -> Publication:
            _check_accepted(batch, outcomes, decision.accepted)
            resolution = self._resolution(verdict, Action.RELEASED, decision, outcomes)
            decided.append(resolution)
            return Publication(_publisher(batch), 1, resolution.to_json())

        self._gate.check_again(_versions(verdict), publication)
        self._resolutions.put(decided[0])
        return decided[0]

    def discard(self, batch: str, decision: Decision) -> Resolution:
        """Decides that a batch is never published. Its rows stay where they are. May be repeated.

        Raises:
            ReleaseRefusedError: no such batch, or it was released before.
        """
        verdict, earlier = self.find(batch)
        if earlier is not None:
            return _as_decided(earlier, Action.DISCARDED)
        _check_decision(decision)
        resolution = self._resolution(verdict, Action.DISCARDED, decision, ())
        self._resolutions.put(resolution)
        return resolution

    def _resolution(
        self, verdict: Verdict, action: Action, decision: Decision, outcomes: tuple[Outcome, ...]
    ) -> Resolution:
        return Resolution(
            table=self._table,
            action=action,
            first_version=verdict.first_version,
            last_version=verdict.last_version,
            by=decision.by.strip(),
            reason=decision.reason.strip(),
            accepted=decision.accepted,
            rows=verdict.rows,
            decided_at_ms=self._clock.now_ms(),
            outcomes=outcomes,
        )


def _publisher(batch: str) -> str:
    return f"{PUBLISHER}-release-{batch}"


def _versions(verdict: Verdict) -> Batch:
    return Batch(verdict.first_version, verdict.last_version)


def _as_decided(earlier: Resolution, action: Action) -> Resolution:
    if earlier.action is action:
        return earlier
    raise ReleaseRefusedError(f"batch {earlier.batch} was {earlier.action} by {earlier.by}, which is final")


def _check_decision(decision: Decision) -> None:
    if not decision.by.strip() or not decision.reason.strip():
        raise ReleaseRefusedError("say who decides and why")
    if unknown := set(decision.accepted) - set(WAIVABLE):
        raise ReleaseRefusedError(f"{', '.join(sorted(unknown))} can't be accepted: choose from {', '.join(WAIVABLE)}")


def _check_accepted(batch: str, outcomes: tuple[Outcome, ...], accepted: tuple[str, ...]) -> None:
    broken = [outcome for outcome in outcomes if not outcome.passed and outcome.rule not in accepted]
    if broken:
        reasons = " ".join(f"[{outcome.rule}] {outcome.reason}" for outcome in broken)
        raise ReleaseRefusedError(f"batch {batch} still breaks rules that are not accepted: {reasons}")
