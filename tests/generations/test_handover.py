"""Hand-overs of played apps, killed at every place, under an input that grows: every record is written once."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from harness.dying_step import PLACES_OF_TRANSFER, mark
from spark_apps.pos import POS
from storekeeper.apps.errors import UnusableCheckpointError
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.heartbeat import AppState, Heartbeat
from storekeeper.engine.runtime.heartbeat_writer import HeartbeatWriter
from storekeeper.errors import StateError
from storekeeper.generations import steps
from storekeeper.generations.comparison import ComparisonVerdict
from storekeeper.generations.desired_state import Role
from storekeeper.generations.errors import (
    GenerationPendingError,
    GenerationRefusedError,
    GenerationsDifferError,
)
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import Generation, GenerationState, Journal, JournalFile
from storekeeper.node.cluster.aliases import Alias
from tests.generations.played_apps import TOPIC, PlayedApp, World, at, world_in
from tests.integration.counted_app import COUNTED

_QUIET_TICKS = 10
_MOST_TICKS = 2000
SAME = ComparisonVerdict(1, 1, 0, 0, 0, 0, holds=True)


class _KilledError(BaseException):
    pass


@dataclass
class Play:
    """The steps of an app whose processes are played; each pause lets them, and the input, go on a little."""

    world: World
    apps: list[PlayedApp]
    aliases: list[Alias] = field(default_factory=list)
    compare: Callable[[Generation, Generation], ComparisonVerdict] = lambda *_: SAME
    accepts_differences: bool = False

    @property
    def steps(self) -> GenerationController:
        return GenerationController(
            POS,
            self.world.settings,
            self.world.clock,
            self.go_on,
            self.aliases.append,
            self.compare,
            self.world.log_ends,
            timeout_s=60,
            max_behind=20,
            accepts_differences=self.accepts_differences,
        )

    def go_on(self, seconds: float = 0.1) -> None:
        self.world.clock.advance(int(seconds * 1000))
        self.world.end += self.world.rng.randint(0, 2)
        for app in self.world.rng.sample(self.apps, len(self.apps)):
            app.tick()

    def settle(self) -> None:
        """Lets the apps come to the end of an input that grows no more."""
        quiet = 0
        for _ in range(_MOST_TICKS):
            for app in self.apps:
                app.tick()
            quiet = quiet + 1 if not self.world.not_written() else 0
            if quiet == _QUIET_TICKS:
                return
        pytest.fail(f"never written: {self.world.not_written()}")

    def started(self, *migrations: str, since: str | None = None) -> None:
        """A generation is seeded from what the live one has finished."""
        file = self.world.journal_file
        journal = steps.planned(self.steps.read(), POS, migrations, since=since)
        candidate = journal.candidate
        assert candidate is not None
        start = self.world.seed(journal.live_generation, candidate)
        file.write(steps.started(steps.seeded(journal, candidate.number, start, 1), candidate.number))
        assert start == at(start.offset(TOPIC, 0) or 0)

    def check(self) -> None:
        assert self.world.written_twice() == []
        assert self.world.not_written() == []


def play(path: Path, seed: int = 1, crashes: float = 0.0, *, since: str | None = None) -> Play:
    world = world_in(path, seed)
    found = Play(world, [PlayedApp(world, role, crashes) for role in Role])
    while world.checkpoint(found.steps.read().live_generation).last_committed_batch() is None:
        found.go_on()
    found.started(since=since)
    for _ in range(60):
        found.go_on()
    return found


def test_readers_are_told_of_every_store_of_an_app(tmp_path: Path) -> None:
    aliases: list[Alias] = []
    settings = AppSettings(run_dir=tmp_path)
    clock, ends = ManualClock(), World(settings, random.Random(1)).log_ends
    taken = GenerationController(COUNTED, settings, clock, lambda _: None, aliases.append, lambda *_: SAME, ends)
    journal = steps.planned(taken.read(), COUNTED, [])
    taken.prepare(journal, 2)
    assert [(alias.store, alias.topic, alias.previous_topic, alias.prepare) for alias in aliases] == [
        (store.name, f"{store.changelog_topic}-g2", store.changelog_topic, True) for store in COUNTED.stores
    ]


@pytest.mark.parametrize("seed", range(6))
def test_every_record_is_written_once_through_hand_overs_and_roll_backs(tmp_path: Path, seed: int) -> None:
    played = play(tmp_path, seed, crashes=0.1)
    assert played.steps.hand_over()[0].live == 2
    assert (played.aliases[-1].topic, played.aliases[-1].prepare) == ("pos-rewards-changelog-g2", False)
    for _ in range(30):
        played.go_on()
    assert played.steps.roll_back().live == 1
    assert played.aliases[-1].topic == "pos-rewards-changelog"
    for _ in range(30):
        played.go_on()
    assert played.steps.hand_over()[0].live == 2
    journal = played.steps.retire(1)
    assert journal.generation(1).state is GenerationState.RETIRED
    assert (played.aliases[-1].topic, played.aliases[-1].previous_topic) == ("pos-rewards-changelog-g2", None)
    played.settle()
    played.check()


def test_a_generation_whose_seed_was_refused_is_not_waited_for(tmp_path: Path) -> None:
    played = play(tmp_path)
    played.steps.retire(2)
    played.world.journal_file.write(steps.planned(played.steps.read(), POS, []))
    with pytest.raises(GenerationRefusedError, match="generation 3 is PLANNED"):
        played.steps.hand_over()


def dying(monkeypatch: pytest.MonkeyPatch, place: str) -> Callable[[], None]:
    """Lets the journal's next writing at that place kill the step; returns what undoes that."""
    when, _, wanted = place.partition(":")
    write = JournalFile.write

    def write_and_die(self: JournalFile, journal: Journal) -> None:
        here = mark(journal, self.read()) == wanted
        if here and when == "before":
            raise _KilledError
        write(self, journal)
        if here:
            raise _KilledError

    monkeypatch.setattr(JournalFile, "write", write_and_die)
    return lambda: monkeypatch.setattr(JournalFile, "write", write)


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("place", PLACES_OF_TRANSFER)
def test_a_step_killed_at_any_place_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, backwards: bool
) -> None:
    played = play(tmp_path, crashes=0.1)
    if backwards:
        played.steps.hand_over()
    step = played.steps.roll_back if backwards else played.steps.hand_over
    undo = dying(monkeypatch, place)
    with pytest.raises(_KilledError):
        step()
    undo()
    for _ in range(40):
        played.go_on()
    step()
    assert played.steps.read().live == (1 if backwards else 2)
    assert played.aliases[-1].serving_topic == played.steps.read().live_generation.topics["rewards"]
    played.settle()
    played.check()


def test_a_step_killed_when_it_has_planned_further_batches_is_taken_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played = play(tmp_path)
    write = JournalFile.write

    def write_or_die(self: JournalFile, journal: Journal) -> None:
        if mark(journal, None) == mark(self.read() or journal, None) == "ALIGNING":
            raise _KilledError
        write(self, journal)

    monkeypatch.setattr(JournalFile, "write", write_or_die)
    with pytest.raises(_KilledError):
        played.steps.hand_over()
    monkeypatch.undo()
    journal = played.steps.read()
    assert journal.transfer is not None
    planned = [played.world.checkpoint(journal.generation(number)).last_planned_batch() for number in (1, 2)]
    assert planned != [journal.transfer.source_batch, journal.transfer.target_batch]
    assert played.steps.hand_over()[0].live == 2
    played.settle()
    played.check()


@pytest.mark.parametrize("place", [place for place in PLACES_OF_TRANSFER if place != "before:BEGUN"])
def test_a_hand_over_can_be_called_off_at_any_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    played = play(tmp_path, crashes=0.1)
    undo = dying(monkeypatch, place)
    with pytest.raises(_KilledError):
        played.steps.hand_over()
    undo()
    for _ in range(20):
        played.go_on()
    assert played.steps.roll_back().live == 1
    assert played.aliases[-1].serving_topic == "pos-rewards-changelog"
    played.settle()
    played.check()


def test_both_end_at_the_same_place_when_they_are_compared(tmp_path: Path) -> None:
    played = play(tmp_path)
    seen: list[bool] = []

    def compare(source: Generation, target: Generation) -> ComparisonVerdict:
        seen.append(played.world.stores[source.number] == played.world.stores[target.number])
        return SAME

    played.compare = compare
    assert played.steps.hand_over()[1] == SAME
    assert seen == [True]


def test_generations_that_are_never_still_are_not_handed_over_and_the_old_one_goes_on(tmp_path: Path) -> None:
    played = play(tmp_path)
    played.world.restless = True
    with pytest.raises(GenerationRefusedError, match="pos wrote to its repartition topics in each of 20 batches"):
        played.steps.hand_over()
    played.world.restless = False
    journal = played.steps.read()
    assert (journal.live, journal.transfer) == (1, None)
    played.settle()


def test_a_roll_back_that_is_called_off_sends_readers_back_to_the_live_generation(tmp_path: Path) -> None:
    played = play(tmp_path)
    played.steps.hand_over()
    played.world.restless = True
    for _ in range(30):
        played.go_on()
    with pytest.raises(GenerationRefusedError, match="The roll-back is called off"):
        played.steps.roll_back()
    journal = played.steps.read()
    assert (journal.live, journal.transfer) == (2, None)
    serving = [alias.serving_topic for alias in played.aliases[-2:]]
    assert serving == ["pos-rewards-changelog", "pos-rewards-changelog-g2"]


def test_generations_that_differ_are_not_handed_over_and_the_old_one_goes_on(tmp_path: Path) -> None:
    played = play(tmp_path)
    played.compare = lambda *_: ComparisonVerdict(6, 5, 1, 0, 0, 0, holds=False)
    with pytest.raises(GenerationsDifferError, match="5 same, 1 differing"):
        played.steps.hand_over()
    journal = played.steps.read()
    assert (journal.live, journal.transfer) == (1, None)
    assert played.aliases == []
    played.settle()
    played.check()


@pytest.mark.parametrize("since", [None, "beginning"])
def test_only_a_backfill_takes_over_though_it_differs_and_only_if_that_is_accepted(
    tmp_path: Path, since: str | None
) -> None:
    played = play(tmp_path, since=since)
    differing = ComparisonVerdict(6, 5, 1, 0, 0, 0, holds=False)
    played.compare = lambda *_: differing
    with pytest.raises(GenerationsDifferError, match="--accept-differences" if since else "; retire generation 2"):
        played.steps.hand_over()
    played.accepts_differences = True
    if since is None:
        with pytest.raises(GenerationsDifferError):
            played.steps.hand_over()
        return
    journal, comparison = played.steps.hand_over()
    assert (journal.live, comparison) == (2, differing)


def test_a_successor_that_does_not_run_keeps_the_old_one_running(tmp_path: Path) -> None:
    played = play(tmp_path)
    played.apps[1].stop()
    del played.apps[1]
    for _ in range(60):
        played.go_on()
    with pytest.raises(GenerationPendingError, match="records behind, and may be 20"):
        played.steps.hand_over()
    assert played.steps.read().transfer is None


def failed(played: Play, error: StateError, generation: int = 2) -> None:
    """Writes what a process of the successor says when it ends with an error."""
    path, first = (
        played.world.settings.heartbeat_file("pos-next"),
        Heartbeat("pos", generation, 1, AppState.STARTING, 0, 0),
    )
    with pytest.raises(type(error)), HeartbeatWriter(path, first, clock=played.world.clock).running():
        raise error


def test_a_successor_that_would_fail_again_is_not_waited_for(tmp_path: Path) -> None:
    played = play(tmp_path)
    failed(played, UnusableCheckpointError("of other topics"))
    says = r"pos-next has failed, and would fail again \(UnusableCheckpointError: of other topics\)"
    with pytest.raises(GenerationRefusedError, match=says):
        played.steps.hand_over()
    assert played.steps.read().transfer is None


def test_a_wait_ends_when_the_successor_fails_for_good(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    played = play(tmp_path)
    undo = dying(monkeypatch, "after:BEGUN")
    with pytest.raises(_KilledError):
        played.steps.hand_over()
    undo()
    played.apps.pop().stop()
    failed(played, UnusableCheckpointError("of other topics"))
    with pytest.raises(GenerationRefusedError, match="pos-next has failed"):
        played.steps.hand_over()


def test_a_successor_that_a_restart_may_heal_is_waited_for(tmp_path: Path) -> None:
    played = play(tmp_path)
    failed(played, BrokerUnavailableError("away"))
    assert played.steps.hand_over()[0].live == 2


def test_what_a_process_said_of_another_generation_does_not_count(tmp_path: Path) -> None:
    played = play(tmp_path)
    failed(played, UnusableCheckpointError("of other topics"), generation=1)
    assert played.steps.hand_over()[0].live == 2


def test_there_must_be_something_to_hand_over_to_and_to_go_back_to(tmp_path: Path) -> None:
    world = world_in(tmp_path, 1)
    played = Play(world, [PlayedApp(world, role) for role in Role])
    with pytest.raises(GenerationRefusedError, match="there is no generation to hand over to"):
        played.steps.hand_over()
    with pytest.raises(GenerationRefusedError, match="nothing was handed over"):
        played.steps.roll_back()


def test_a_step_that_was_taken_changes_nothing(tmp_path: Path) -> None:
    played = play(tmp_path)
    done, _ = played.steps.hand_over()
    assert played.steps.hand_over() == (done, None)
    back = played.steps.roll_back()
    assert played.steps.roll_back() == back
    assert back.live == 1
    gone = played.steps.retire(2)
    assert played.steps.retire(2) == gone
