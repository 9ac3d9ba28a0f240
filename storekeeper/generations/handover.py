"""The steps of a generation change: they apply the journal to processes, checkpoints and topics.

Any process may repeat a step after a crash at any point: it continues from the journal. A change counts once the
journal has it. What an entry depends on (a planned batch, a published alias) is done first and is safe to repeat.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import structlog

from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import AppSpec
from storekeeper.changelog.position import Position
from storekeeper.clock import Clock, SystemClock
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.heartbeat import read_heartbeat
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.topics import Topics
from storekeeper.generations import steps
from storekeeper.generations.aliases import aliases_of
from storekeeper.generations.boundary import is_settled, plan_batch
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.comparison import ComparisonVerdict, compare_generations
from storekeeper.generations.desired_state import Role, check_not_fixed, generation_lease
from storekeeper.generations.errors import GenerationPendingError, GenerationRefusedError, GenerationsDifferError
from storekeeper.generations.journal import Generation, Journal, JournalFile, Transfer, TransferPhase
from storekeeper.generations.status import behind, check_changeable
from storekeeper.node.cluster.aliases import Alias, publish_alias
from storekeeper.node.security.cluster_secret import load_cluster_secret
from storekeeper.program import NO_RESTART

_POLL_S = 0.1
_MOST_ROUNDS = 20
"""Maximum rounds of batches until the repartition topics are drained: each moves records on to the next topic."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class GenerationController:
    """Takes the steps of one app.

    Attributes:
        spec, settings, clock: the app, the run directory and broker, and the time.
        wait: sleeps for the given number of seconds.
        publish: publishes an alias: the changelog behind a store's name.
        compare: compares two paused generations.
        log_ends: the ends of what is committed in topics.
        timeout_s: how long a step waits for processes before it raises GenerationPendingError.
        max_behind: how many records of input the successor may be behind when a hand-over begins.
        accepts_differences: whether a backfill takes over even if it differs. A seeded generation never does.
    """

    spec: AppSpec
    settings: AppSettings
    clock: Clock
    wait: Callable[[float], object]
    publish: Callable[[Alias], object]
    compare: Callable[[Generation, Generation], ComparisonVerdict]
    log_ends: Callable[[Collection[str]], Position]
    timeout_s: float = 120.0
    max_behind: int = 100_000
    accepts_differences: bool = False

    @property
    def journal_file(self) -> JournalFile:
        """The app's journal file."""
        return JournalFile(self.settings.durable, self.spec.name)

    def read(self) -> Journal:
        """The current journal; that of an app that has never changed if there is no file."""
        return self.journal_file.read() or first_journal(self.spec)

    def hand_over(self, target: int | None = None) -> tuple[Journal, ComparisonVerdict | None]:
        """Makes `target` live; None: the generation that runs beside the live one.

        Returns:
            The journal, and the comparison's verdict; None if this call compared nothing.

        Raises:
            GenerationPendingError: a process is too far behind or timed out. Take the step again.
            GenerationsDifferError: their rows differ. The hand-over is called off.
            GenerationRefusedError: the hand-over is not possible.
        """
        with self.journal_file.locked(self.settings.run_dir):
            journal = self.read()
            chosen = _successor(journal) if target is None else target
            if journal.live == chosen and journal.transfer is None:
                return journal, None
            # Checked first: waiting doesn't help a generation whose seed was refused.
            begun = steps.begun(journal, chosen, compares=True)
            if journal.transfer is None:
                self._check_ready(journal, journal.generation(chosen))
            self._write(begun)
            return self._transferred()

    def roll_back(self) -> Journal:
        """Calls off the hand-over that is under way, or makes the previous live generation live again.

        Readers switch back first, once that generation has reached what they have seen. The outputs follow.

        Raises:
            GenerationPendingError: that generation or a process is not far enough yet. Take the step again.
            GenerationRefusedError: there is nothing to roll back.
        """
        with self.journal_file.locked(self.settings.run_dir):
            journal = self.read()
            transfer = journal.transfer
            if transfer is not None and transfer.compares:
                self._tell(journal.generation(transfer.source), journal.generation(transfer.target), prepare=True)
                return self._write(steps.called_off(journal))
            if transfer is None:
                standby = journal.standby
                if standby is None and journal.candidate is not None:
                    return journal  # its hand-over has not begun, or was called off
                if standby is None:
                    raise GenerationRefusedError("nothing was handed over that could be rolled back")
                if standby.number > journal.live:
                    return journal
                self._await_standby(journal, standby)
                self._tell(standby, journal.live_generation)
                self._write(steps.begun(journal, standby.number, compares=False))
            return self._transferred()[0]

    def retire(self, number: int) -> Journal:
        """Ends a generation that is not live; nodes drop its changelog.

        Raises:
            GenerationPendingError: its process has not ended yet. Take the step again.
            GenerationRefusedError: it is live, or a hand-over is under way.
        """
        with self.journal_file.locked(self.settings.run_dir):
            journal = self._write(steps.retired(self.read(), number))
            self._tell(journal.live_generation, None)
            with self._held(journal.generation(number), "its process ends"):
                return journal

    def checkpoint(self, generation: Generation) -> BatchCheckpoint:
        """The checkpoint of a generation's query."""
        return BatchCheckpoint(self.settings.in_generation(generation.number).checkpoint_dir(self.spec.name))

    def serve(self, generation: Generation) -> None:
        """Publishes aliases that make nodes serve a generation, and none beside it."""
        self._tell(generation, None)

    def prepare(self, journal: Journal, number: int) -> None:
        """Publishes aliases that make nodes warm a generation's changelogs beside the live ones."""
        self._tell(journal.live_generation, journal.generation(number), prepare=True)

    def input_of(self, position: Position) -> Position:
        """A position without the repartition topics: each generation has its own."""
        sources = self.spec.sources(self.settings)
        return Position({topic: ends for topic, ends in position.offsets.items() if topic in sources})

    def repartition_topics(self, generation: Generation) -> set[str]:
        """The repartition topics that a generation reads; none before its checkpoint exists.

        Sources that it has read and the installed code doesn't are among them: these topics are not all the app's own.
        """
        position = self.checkpoint(generation).committed_position()
        return position.offsets.keys() - self.input_of(position).offsets.keys()

    def _transferred(self) -> tuple[Journal, ComparisonVerdict | None]:
        comparison: ComparisonVerdict | None = None
        rounds = 0
        while (transfer := self.read().transfer) is not None:
            _log.info("hand_over", app=self.spec.name, phase=transfer.phase, target=transfer.target)
            if transfer.phase is TransferPhase.ALIGNING:
                rounds += 1
                if rounds > _MOST_ROUNDS:
                    raise self._never_still(self.read(), transfer)
                comparison = self._align()
            else:
                _PHASES[transfer.phase](self)
        return self.read(), comparison

    def _hold_target(self) -> None:
        journal = self.read()
        _, target = _both(journal)
        with self._held(target, "it holds", is_settled) as checkpoint:
            self._write(steps.waiting(journal, self.input_of(checkpoint.committed_position())))

    def _bring_together(self) -> None:
        journal = self.read()
        source, target = _both(journal)
        with self._held(target, "it holds", is_settled) as behind_it:
            reached = self.input_of(behind_it.committed_position())

            def is_there(checkpoint: BatchCheckpoint) -> bool:
                return is_settled(checkpoint) and checkpoint.committed_position().reaches(reached)

            with self._held(source, "it reaches its successor and holds", is_there) as ahead:
                end = self.input_of(ahead.committed_position())
                batches = self._planned_to(source, ahead, end), self._planned_to(target, behind_it, end)
                self._write(steps.aligning(journal, end, *batches))

    def _planned_to(self, generation: Generation, checkpoint: BatchCheckpoint, end: Position) -> int:
        """The batch that ends at input position `end` and at the repartition topics' ends; planned if not yet run."""
        through, last = self.repartition_topics(generation), _last(checkpoint)
        target = end.merged(self.log_ends(through)) if through else end
        if checkpoint.committed_position() == target:
            return last
        plan_batch(checkpoint, last + 1, target)
        return last + 1

    def _align(self) -> ComparisonVerdict | None:
        journal = self.read()
        transfer, (source, target) = journal.transfer, _both(journal)
        assert transfer is not None  # noqa: S101 (the caller has looked)
        comparison = None
        with (
            self._held(
                target, f"it runs batch {transfer.target_batch}", _behind_batch(transfer.target_batch)
            ) as of_target,
            self._held(
                source, f"it runs batch {transfer.source_batch}", _behind_batch(transfer.source_batch)
            ) as of_source,
        ):
            end = transfer.end
            batches = self._planned_to(source, of_source, end), self._planned_to(target, of_target, end)
            if batches != (transfer.source_batch, transfer.target_batch):
                self._write(steps.aligning(journal, end, *batches))
                return None
            if transfer.compares:
                comparison = self.compare(source, target)
                if not comparison.holds and not (self.accepts_differences and target.since is not None):
                    self._write(steps.called_off(journal))
                    raise _differing(source, target, comparison)
            self._write(steps.aligned(journal))
        return comparison

    def _never_still(self, journal: Journal, transfer: Transfer) -> GenerationRefusedError:
        """Calls off a change whose generations never hold the same."""
        if not transfer.compares:
            # A roll-back has sent the readers ahead.
            self._tell(*_both(journal))
        self._write(steps.called_off(journal))
        return GenerationRefusedError(
            f"{self.spec.name} wrote to its repartition topics in each of {_MOST_ROUNDS} batches without input, so its "
            "generations never hold the same: does a wall-clock timer write there? "
            f"The {'hand-over' if transfer.compares else 'roll-back'} is called off"
        )

    def _complete(self) -> None:
        journal = self.read()
        source, target = _both(journal)
        self._tell(target, source)
        self._write(steps.completed(journal))

    def _check_ready(self, journal: Journal, target: Generation) -> None:
        """Refuses a hand-over that would keep outputs waiting until the successor has caught up."""
        source = self.checkpoint(journal.live_generation)
        checkpoint = self.checkpoint(target)
        if source.last_committed_batch() is None:
            raise GenerationRefusedError(f"generation {journal.live} has not run yet: there is nothing to hand over")
        self._check_alive(target)
        left = behind(self.input_of(source.committed_position()), self.input_of(checkpoint.committed_position()))
        if left > self.max_behind:
            raise self._pending(target, f"it is {left} records behind, and may be {self.max_behind}")

    def _await_standby(self, journal: Journal, standby: Generation) -> None:
        seen = self.input_of(self.checkpoint(journal.live_generation).committed_position())
        checkpoint = self.checkpoint(standby)
        self._until(standby, lambda: checkpoint.committed_position().reaches(seen), "it has what readers have seen")

    @contextmanager
    def _held(
        self, generation: Generation, until: str, is_there: Callable[[BatchCheckpoint], bool] = lambda _: True
    ) -> Iterator[BatchCheckpoint]:
        """Waits until a generation is that far, then holds its lease so that its query can't run."""
        checkpoint = self.checkpoint(generation)
        lease: Lease | None = None

        def there() -> bool:
            nonlocal lease
            if not is_there(checkpoint):
                return False
            name = generation_lease(self.spec.name, generation.number)
            lease = Lease(self.settings.lease_file(name), clock=self.clock, wait=self.wait)
            with contextlib.suppress(AppRunningError):
                lease.acquire(0)
                # It may have run on before the lease was acquired.
                if is_there(checkpoint):
                    return True
                lease.release()
            lease = None
            return False

        self._until(generation, there, until)
        try:
            yield checkpoint
        finally:
            if lease is not None:
                lease.release()

    def _until(self, generation: Generation, reached: Callable[[], bool], what: str) -> None:
        deadline_s = self.clock.monotonic_s() + self.timeout_s
        while not reached():
            self._check_alive(generation)
            if self.clock.monotonic_s() >= deadline_s:
                raise self._pending(generation, f"waited {self.timeout_s:.0f} s until {what}")
            self.wait(_POLL_S)

    def _check_alive(self, generation: Generation) -> None:
        """Refuses to wait for a generation whose process has failed, and would fail again."""
        role = Role.LIVE if generation.number == self.read().live else Role.NEXT
        program = role.program(self.spec.name)
        beat = read_heartbeat(self.settings.heartbeat_file(program))
        if beat is not None and beat.generation == generation.number and beat.exit_code in NO_RESTART:
            raise GenerationRefusedError(
                f"{program} has failed, and would fail again ({beat.error}): correct that and start it, "
                "then take this step again"
            )

    def _pending(self, generation: Generation, why: str) -> GenerationPendingError:
        return GenerationPendingError(
            f"generation {generation.number} of {self.spec.name} is not there yet ({why}): see that it runs "
            f"(`storekeeper run --next {self.spec.name}`), then take this step again"
        )

    def _tell(self, chosen: Generation, other: Generation | None, *, prepare: bool = False) -> None:
        """Publishes aliases: nodes serve `chosen` and keep `other` warm; with `prepare` they restore `other` beside it.

        Stores switch one by one: a reader of two stores may briefly see one before and one after the switch.
        """
        for alias in aliases_of(self.spec, chosen, other, self.clock.now_ms(), prepare=prepare):
            self.publish(alias)

    def _write(self, journal: Journal) -> Journal:
        self.journal_file.write(journal)
        return journal


_PHASES: dict[TransferPhase, Callable[[GenerationController], object]] = {
    TransferPhase.BEGUN: GenerationController._hold_target,  # noqa: SLF001 (a table of this class's own)
    TransferPhase.WAITING: GenerationController._bring_together,  # noqa: SLF001
    TransferPhase.ALIGNED: GenerationController._complete,  # noqa: SLF001
}


def _behind_batch(batch: int | None) -> Callable[[BatchCheckpoint], bool]:
    return lambda checkpoint: is_settled(checkpoint) and (batch is None or _last(checkpoint) >= batch)


def _last(checkpoint: BatchCheckpoint) -> int:
    committed = checkpoint.last_committed_batch()
    return -1 if committed is None else committed


def _both(journal: Journal) -> tuple[Generation, Generation]:
    if journal.transfer is None:
        raise GenerationRefusedError("no hand-over is under way")
    return journal.generation(journal.transfer.source), journal.generation(journal.transfer.target)


def _successor(journal: Journal) -> int:
    if journal.transfer is not None:
        return journal.transfer.target
    candidate = journal.candidate
    if candidate is not None:
        return candidate.number
    if journal.standby is not None:
        # The newer of the two: it is live already, or it was rolled back and is tried again.
        return max(journal.live, journal.standby.number)
    raise GenerationRefusedError("there is no generation to hand over to: `generation seed` makes one")


def _differing(source: Generation, target: Generation, verdict: ComparisonVerdict) -> GenerationsDifferError:
    way = f"retire generation {target.number}"
    if target.since is not None:
        way = f"if a backfill is to differ so, hand over with --accept-differences; otherwise {way}"
    return GenerationsDifferError(
        f"generations {source.number} and {target.number} differ at the same place of the input "
        f"({_shown(verdict)}): generation {source.number} stays live and goes on; {way}"
    )


def _shown(verdict: ComparisonVerdict) -> str:
    counts = ("same", "differing", "missing", "unexpected", "unconvertible")
    return ", ".join(f"{getattr(verdict, name)} {name}" for name in counts)


def controller_of(
    app: str, timeout_s: float = 0, max_behind: int = 0, *, accepts_differences: bool = False
) -> GenerationController:
    """The controller of an app's generations on this platform.

    Raises:
        ConfigurationError: there is no such app, or it can't have generations.
        GenerationRefusedError: a setting says which generation runs.
    """
    spec = app_named(app)
    check_changeable(spec)
    settings = AppSettings.of_platform()
    check_not_fixed(settings)
    secret = load_cluster_secret(settings.cluster_secret_file)
    return GenerationController(
        spec,
        spec.settings(settings),
        SystemClock(),
        time.sleep,
        partial(publish_alias, settings.kafka, secret),
        partial(_compared, settings, app),
        Topics(settings.kafka).committed_end,
        timeout_s=timeout_s,
        max_behind=max_behind,
        accepts_differences=accepts_differences,
    )


def _compared(settings: AppSettings, app: str, source: Generation, target: Generation) -> ComparisonVerdict:
    return compare_generations(settings.kafka, settings.run_dir / "generations" / app, source, target)
