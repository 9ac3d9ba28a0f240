"""An app that goes on from its tables: where its input begins, which batch they share, and deaths at each step."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from spark_apps.pos import POS
from storekeeper.apps.errors import AppRunningError
from storekeeper.apps.settings import AppSettings
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.engine.runtime.lease import Lease
from storekeeper.engine.runtime.topics import TopicBounds, Topics
from storekeeper.errors import SnapshotDamagedError
from storekeeper.generations import steps
from storekeeper.generations.catalog import check_since, first_journal
from storekeeper.generations.desired_state import Role, desired_state_of, generation_lease
from storekeeper.generations.errors import GenerationRefusedError
from storekeeper.generations.handover import GenerationController
from storekeeper.generations.journal import TABLES, GenerationState, Journal
from storekeeper.generations.recovery import Recovering, Recovery, SealedHistory, common_batch, start_of
from storekeeper.generations.seeding import Seed
from storekeeper.kafka.connection import Kafka
from storekeeper.node.cluster.aliases import Alias
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.history import HistoryManifest, history_manifests
from storekeeper.stores.store_definitions import ServedKind
from tests.snapshots.played_log import PlayedLog, PlayedStore, batch_of

BEGIN_MS = 1_760_000_000_000
AT = Position({"pos": {0: 50, 1: 7}})


def bounds(first: int, end: int) -> TopicBounds:
    return TopicBounds(Position({"pos": {0: first, 1: 0}}), Position({"pos": {0: end, 1: 9}}))


def manifest(store: str = "words", batch: int = 3, **changes: Any) -> HistoryManifest:
    told: dict[str, Any] = {
        "store": store,
        "app": "app",
        "kind": ServedKind.KEY_VALUE,
        "changelog_topic": "log",
        "generation": 1,
        "changelog_offsets": {0: 9},
        "source_offsets": AT,
        "batch": batch,
        "exact_from_ms": BEGIN_MS,
        "exact_to_ms": BEGIN_MS + batch,
        "gaps": (),
        "eras": (BEGIN_MS,),
        "totals": {},
        "columns": {},
        "read_at_ms": BEGIN_MS,
    }
    return HistoryManifest(**told | changes)


SAME = {"pos": "id-1"}


@pytest.mark.parametrize(
    ("there", "began_with", "begins", "losses"),
    [
        (bounds(0, 60), SAME, 50, []),
        (bounds(50, 50), SAME, 50, []),
        (
            bounds(51, 60),
            SAME,
            51,
            ["topic pos partition 0 begins at 51: its records 50 to 50 were deleted and are lost"],
        ),
        (
            bounds(0, 49),
            SAME,
            49,
            [
                (
                    "topic pos partition 0 ends at 49, and the tables have its records below 50: Kafka has older data; "
                    "it is read from its end"
                )
            ],
        ),
    ],
    ids=["there", "at its end", "deleted", "older data"],
)
def test_the_input_goes_on_where_the_tables_end_or_a_loss_is_named(
    there: TopicBounds, began_with: dict[str, str], begins: int, losses: list[str]
) -> None:
    start, said = start_of(AT, there, began_with, SAME)
    assert (start, said) == (Position({"pos": {0: begins, 1: 7}}), losses)


def test_a_source_that_was_made_anew_is_read_from_its_beginning() -> None:
    start, losses = start_of(AT, bounds(3, 60), {"pos": "id-0"}, SAME)
    assert start == Position({"pos": {0: 3, 1: 0}})
    assert [loss.partition(":")[0] for loss in losses] == [
        "topic pos partition 0 is of a topic made anew",
        "topic pos partition 1 is of a topic made anew",
    ]


def test_a_partition_that_is_gone_is_named() -> None:
    only_one = TopicBounds(Position({"pos": {0: 0}}), Position({"pos": {0: 60}}))
    start, losses = start_of(AT, only_one, SAME, SAME)
    assert (start, losses) == (
        Position({"pos": {0: 50}}),
        ["topic pos partition 1 is gone: what it lacks behind 7 is lost"],
    )


def test_without_a_claim_it_is_said_that_nobody_knows_the_topic() -> None:
    start, losses = start_of(AT, bounds(0, 60), {}, SAME)
    assert start == AT
    assert [loss.partition(":")[0] for loss in losses] == ["the claim on the checkpoint is gone"]
    start, losses = start_of(AT, bounds(2, 40), {}, SAME)
    assert start == Position({"pos": {0: 2, 1: 7}})
    assert "it is taken for another topic, and read from its beginning, 2" in losses[0]


def history(*manifests: HistoryManifest) -> SealedHistory:
    return SealedHistory(Path("/nowhere"), 0, manifests)


def test_all_stores_begin_at_the_newest_batch_that_all_have() -> None:
    found = common_batch({
        "a": history(manifest("a", 9), manifest("a", 7), manifest("a", 5)),
        "b": history(manifest("b", 8), manifest("b", 7), manifest("b", 5)),
    })  # fmt: skip
    assert {store: one.batch for store, one in found.items()} == {"a": 7, "b": 7}
    assert {one.store for one in found.values()} == {"a", "b"}


def test_a_batch_of_which_one_store_lacks_changes_does_not_count() -> None:
    gap = (BEGIN_MS + 6, BEGIN_MS + 8)
    found = common_batch({
        "a": history(manifest("a", 9, gaps=(gap,)), manifest("a", 7, gaps=(gap,)), manifest("a", 5)),
        "b": history(manifest("b", 7), manifest("b", 5)),
    })  # fmt: skip
    assert {one.batch for one in found.values()} == {5}


def test_tables_without_a_common_batch_are_refused_by_name() -> None:
    with pytest.raises(GenerationRefusedError, match=r"no batch in common .*: a has batch 9 .*, b has batch 8 of"):
        common_batch({"a": history(manifest("a", 9)), "b": history(manifest("b", 8))})
    with pytest.raises(GenerationRefusedError, match="no batch in common"):
        common_batch({"a": history(manifest("a", 9)), "b": history(manifest("b", 9, generation=2))})


@pytest.mark.parametrize("seed", range(3))
def test_the_rows_are_those_of_the_batch(tmp_path: Path, seed: int) -> None:
    """Random batches, of which some have a snapshot: what was the store at its end is what a generation begins with."""
    rng = random.Random(seed)
    played = PlayedStore(tmp_path, PlayedLog("log-1"))
    content: dict[bytes, bytes] = {}
    expected: dict[int, dict[bytes, bytes]] = {}
    for batch in range(12):
        changes = {rng.choice("abcdefgh"): rng.choice(["ale", "bread", None]) for _ in range(3)}
        played.log.batch(batch, BEGIN_MS + batch * 1000, changes)
        for key, word in changes.items():
            if word is None:
                content.pop(key.encode(), None)
            else:
                content[key.encode()] = b'{"Word":"%s"}' % word.encode()
        if rng.random() < 0.5 or batch == 11:
            played.take(batch_of(1, batch, BEGIN_MS + batch * 1000), batch)
            expected[batch] = dict(content)
    place = played.entry(HISTORY).path
    version = played.entry(HISTORY).sealed.current().version  # type: ignore[union-attr]
    assert version is not None
    manifests = tuple(history_manifests(place, upto=version))
    found = SealedHistory(place, version, manifests)
    assert {one.batch for one in manifests} == expected.keys()
    for one in manifests:
        rows: dict[bytes, bytes] = {}
        for part in found.rows(one):
            assert part.column("_timestamp_ms").to_pylist() == [7] * part.num_rows
            rows |= dict(zip(part.column("_key").to_pylist(), part.column("_value").to_pylist(), strict=True))
        assert rows == expected[one.batch]


def test_a_history_that_is_not_as_it_was_sealed_is_no_place_to_begin(tmp_path: Path) -> None:
    played, settings = PlayedStore(tmp_path / "delta", PlayedLog("log-1")), AppSettings(run_dir=tmp_path)
    assert SealedHistory.of(settings, "words") is None
    played.log.batch(0, BEGIN_MS, {"a": "ale"})
    played.take(batch_of(1, 0, BEGIN_MS), 0)
    found = SealedHistory.of(settings, "words")
    assert found is not None
    assert [one.batch for one in found.manifests] == [0]
    (file,) = (tmp_path / "delta" / "words_history").glob("_day=*/*.parquet")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(SnapshotDamagedError, match=rf"{file.name} was changed"):
        SealedHistory.of(settings, "words")


class _KilledError(BaseException):
    pass


@dataclass
class Dying:
    """Dies at the step of a number, once."""

    at: int
    steps: int = 0

    def step(self) -> None:
        self.steps += 1
        if self.steps == self.at:
            raise _KilledError


@dataclass(frozen=True)
class Played(Recovering):
    """A recovery whose changelogs and tables are not there: what is made is noted."""

    dying: Dying = field(default_factory=lambda: Dying(0))
    seeds: list[int] = field(default_factory=list)
    lost: list[str] = field(default_factory=lambda: ["changelog x was deleted"])
    losses: tuple[str, ...] = ()

    def plan(self, journal: Journal) -> Recovery:
        self._check_alone(journal)
        number = max(journal.generations) + (journal.candidate is None)
        return Recovery("pos", number, {"rewards": manifest("rewards")}, AT, self.lost[0], self.losses, {})

    def what_is_lost(self, journal: Journal) -> str | None:
        return self.lost[0] if journal.live == 1 else None

    def make_seed(self, recovery: Recovery, journal: Journal) -> Seed:
        assert journal.generation(recovery.number).state is GenerationState.PLANNED
        self.dying.step()
        self.seeds.append(recovery.number)
        self.dying.step()
        return Seed(recovery.start, 811)


Make = Callable[..., Played]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1")
    aliases: list[Alias] = []

    def made(dying: Dying | None = None, **changes: Any) -> Played:
        dying = dying or Dying(0)

        def publish(alias: Alias) -> None:
            dying.step()
            aliases.append(alias)
            dying.step()

        controller = GenerationController(
            POS, settings, ManualClock(), lambda _: None, publish, lambda *_: pytest.fail("compared"),
            lambda _: Position(),
        )  # fmt: skip
        write = type(controller.journal_file).write

        def journalled(file: Any, journal: Journal) -> None:
            dying.step()
            write(file, journal)
            dying.step()

        monkeypatch.setattr(type(controller.journal_file), "write", journalled)
        played = Played(controller, Topics(Kafka("127.0.0.1:1")), dying, **changes)
        monkeypatch.undo() if dying.at == 0 else None
        return played

    made.aliases = aliases  # type: ignore[attr-defined]
    return made


def check_recovered(journal: Journal) -> None:
    live = journal.live_generation
    assert (live.number, live.since, live.start, live.seed_rows) == (2, TABLES, AT, 811)
    assert journal.generation(1).state is GenerationState.RETIRED
    assert (live.writes_outputs(0), live.writes_outputs(1), live.writes_outputs(10**6)) == (False, True, True)
    assert journal.other is None
    desired = desired_state_of(journal, Role.LIVE)
    assert desired is not None
    assert (desired.generation, desired.holds) == (live, False)


def test_the_new_generation_is_live_at_once_and_a_repeated_command_changes_nothing(make: Make) -> None:
    recovering = make()
    check_recovered(recovering.take(accept_loss=False))
    published = {alias.store: alias for alias in make.aliases}  # type: ignore[attr-defined]
    assert published.keys() == {store.name for store in POS.stores}
    assert {(alias.generation, alias.previous_topic, alias.prepare) for alias in published.values()} == {
        (2, None, False)
    }
    check_recovered(recovering.take(accept_loss=False))
    assert recovering.seeds == [2]


@pytest.mark.parametrize("at", range(1, 13))
def test_a_death_at_any_step_is_made_up_for_by_the_next_run(make: Make, at: int) -> None:
    dying = make(Dying(at))
    try:
        dying.take(accept_loss=False)
        died = False
    except _KilledError:
        died = True
    before = dying.controller.read()
    assert before.live == 1 or before.generation(2).state is GenerationState.LIVE
    again = make()
    check_recovered(again.take(accept_loss=False))
    assert [*dying.seeds, *again.seeds], "it was seeded"
    assert died == (at <= 10), "each step before the end was a place to die"


def test_losses_are_named_until_somebody_accepts_them(make: Make) -> None:
    recovering = make(losses=("topic pos begins at 7",))
    with pytest.raises(GenerationRefusedError, match=r"^topic pos begins at 7\. If that is so, .*--accept-loss"):
        recovering.take(accept_loss=False)
    assert recovering.controller.read().generations.keys() == {1}, "nothing was begun"
    check_recovered(recovering.take(accept_loss=True))


@pytest.mark.parametrize(
    ("state", "since"),
    [
        (GenerationState.PLANNED, None),
        (GenerationState.STARTED, None),
        (GenerationState.STANDBY, None),
        (GenerationState.STANDBY, TABLES),
    ],
)
def test_another_generation_may_have_what_is_lost(make: Make, state: GenerationState, since: str | None) -> None:
    recovering = make()
    journal = steps.planned(first_journal(POS), POS, (), since=since)
    journal = journal.updated(replace(journal.generation(2), state=state))
    recovering.controller.journal_file.write(journal)
    with pytest.raises(GenerationRefusedError, match=f"generation 2 of pos is {state}, and may have what generation 1"):
        recovering.take(accept_loss=True)
    assert recovering.controller.read() == journal


def test_a_running_app_is_left_alone(make: Make) -> None:
    recovering = make()
    controller = recovering.controller
    lease = Lease(controller.settings.lease_file(generation_lease("pos", 1)), clock=ManualClock(), wait=lambda _: None)
    lease.acquire(0)
    with pytest.raises(AppRunningError):
        recovering.take(accept_loss=True)
    assert not controller.journal_file.exists
    lease.release()


def test_a_recovery_that_has_begun_is_no_generation_to_hand_over_to(make: Make) -> None:
    dying = make(Dying(4))
    with pytest.raises(_KilledError):
        dying.take(accept_loss=False)
    controller = make().controller
    for step in (controller.hand_over, lambda: steps.planned(controller.read(), POS, ())):
        with pytest.raises(GenerationRefusedError):
            step()
    controller.retire(2)
    assert controller.read().live_generation.writes_outputs(10**6), "it was given up: all is as before"


def test_the_tables_are_a_place_to_begin() -> None:
    check_since(TABLES)


def test_a_batch_of_an_app_of_another_name_is_no_batch_of_this_one() -> None:
    """An app was renamed, and each store has batches of both."""
    old = manifest(batch=3, app="old")
    found = common_batch({
        "a": history(manifest("a", 3, exact_to_ms=BEGIN_MS + 90), manifest("a", 2, exact_to_ms=BEGIN_MS + 80), old),
        "b": history(manifest("b", 2, exact_to_ms=BEGIN_MS + 80), old),
    })  # fmt: skip
    assert {(one.app, one.batch) for one in found.values()} == {("app", 2)}
