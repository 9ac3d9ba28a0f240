from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from storekeeper.apps.errors import LostChangelogError, PartitionsChangedError, UnusableCheckpointError
from storekeeper.apps.registry import app_named
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import Describe, own_topics, topology_app
from storekeeper.changelog.errors import BrokerUnavailableError
from storekeeper.changelog.position import Position
from storekeeper.clock import ManualClock
from storekeeper.engine.driver.preflight import Preflight, check_bounds, check_newest, preflight
from storekeeper.engine.markers import Marker
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner, ServedStore, owner_file
from storekeeper.engine.runtime.topics import TopicBounds, Topics, await_topics
from storekeeper.errors import ConfigurationError
from storekeeper.kafka.connection import Kafka
from storekeeper.topology import StreamsBuilder
from tests.apps.checkpoints import write_checkpoint
from tests.engine import topologies

BOUNDS = TopicBounds(Position({"pos": {0: 10, 1: 0}}), Position({"pos": {0: 50, 1: 0}}))


def check(offsets: dict[str, dict[int, int]]) -> None:
    check_bounds(app_named("pos"), AppSettings(), Position(offsets), BOUNDS)


@pytest.mark.parametrize("offsets", [{}, {"pos": {0: 10}}, {"pos": {0: 50, 1: 0}}, {"pos": {0: 33}}])
def test_offsets_within_the_log_can_be_read_on_from(offsets: dict[str, dict[int, int]]) -> None:
    check(offsets)


@pytest.mark.parametrize(
    ("offsets", "says"),
    [
        ({"pos": {0: 9}}, "offset 9 of pos partition 0, which holds offsets 10 to 50"),
        ({"pos": {0: 51}}, "offset 51 of pos partition 0"),
        ({"pos": {7: 0}}, "partition 7, which holds nothing"),
        ({"till": {0: 20}}, "is of topic till, not of pos"),
    ],
)
def test_offsets_outside_it_are_refused_with_a_way_out(offsets: dict[str, dict[int, int]], says: str) -> None:
    with pytest.raises(UnusableCheckpointError, match=says) as caught:
        check(offsets)
    assert "start a new generation" in str(caught.value)


class FakeTopics(Topics):
    """Answers from a list: names that are missing, or None for a broker that is away."""

    def __init__(self, answers: list[list[str] | None]) -> None:
        self._answers = answers

    def missing(self, names: object) -> list[str]:
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is None:
            raise BrokerUnavailableError("away")
        return answer


def await_with(answers: list[list[str] | None]) -> float:
    """How long it waited, in seconds."""
    clock = ManualClock()
    await_topics(
        FakeTopics(answers), ["pos"], timeout_s=5, clock=clock, wait=lambda seconds: clock.advance(int(seconds * 1000))
    )
    return clock.monotonic_s()


def test_topics_that_are_there_are_not_waited_for() -> None:
    assert await_with([[]]) == 0


def test_a_broker_that_is_just_starting_is_waited_for() -> None:
    assert 0 < await_with([None, None, ["pos"], []]) < 5


def test_missing_topics_are_named() -> None:
    with pytest.raises(ConfigurationError, match="topics are missing: pos"):
        await_with([["pos"]])


def test_a_broker_that_stays_away_is_no_fault_of_the_settings() -> None:
    with pytest.raises(BrokerUnavailableError):
        await_with([None])


def test_nobody_listening_is_reported_as_such() -> None:
    with pytest.raises(BrokerUnavailableError, match=r"127\.0\.0\.1:1 does not answer"):
        await_topics(Topics(Kafka("127.0.0.1:1")), ["pos"], timeout_s=0, clock=ManualClock(), wait=lambda _: None)


SOURCE, CHANGELOG = "pos", "pos-rewards-changelog"


class CountedTopics(Topics):
    """Topics with these numbers of partitions; none is missing. The changelog's partition 1 has `written` records. In
    those that are `stamped` records have the times of their arrival.
    """

    stamped: tuple[str, ...] = ()

    def __init__(self, counts: Mapping[str, int], written: int = 0) -> None:
        self._counts = counts
        self._written = written

    def missing(self, names: object) -> list[str]:
        return []

    def ids(self, names: object) -> dict[str, str]:
        return {}

    def partitions(self, name: str) -> list[int]:
        return list(range(self._counts[name]))

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        nothing = Position({name: dict.fromkeys(self.partitions(name), 0) for name in names if name in self._counts})
        return TopicBounds(nothing, nothing.merged(Position({CHANGELOG: {1: self._written}})))

    def end(self, names: Iterable[str]) -> Position:
        return self.bounds(names).end

    def committed_end(self, names: Iterable[str]) -> Position:
        return self.bounds(names).end

    def markers(self, names: Iterable[str], query_id: str) -> dict[tuple[str, int], Marker]:
        return {}

    def without_times(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self.stamped]


def begun(run_dir: Path, source: int, changelog: int) -> Preflight:
    """What preflight finds when the topics of `pos` have these numbers of partitions."""
    topics = CountedTopics({SOURCE: source, CHANGELOG: changelog})
    return preflight(app_named("pos"), AppSettings(run_dir=run_dir), topics, ManualClock())


@pytest.mark.parametrize(("source", "changelog", "topic"), [(8, 4, SOURCE), (6, 5, CHANGELOG), (5, 4, SOURCE)])
def test_the_first_start_fixes_the_number_of_partitions(
    tmp_path: Path, source: int, changelog: int, topic: str
) -> None:
    for _ in range(2):
        assert begun(tmp_path, 6, 4).claim.partitions == {SOURCE: 6, CHANGELOG: 4}
    with pytest.raises(PartitionsChangedError, match=f"topic {topic} has"):
        begun(tmp_path, source, changelog)
    begun(tmp_path, 6, 4)


def test_the_claim_holds_what_the_rows_of_served_stores_are(tmp_path: Path) -> None:
    served = begun(tmp_path, 3, 3).claim.served["rewards"]
    (rewards,) = (store for store in app_named("pos").stores if store.name == "rewards")
    assert served == ServedStore(rewards.kind, None, rewards.fields)
    written = CheckpointOwner.read(AppSettings(run_dir=tmp_path).checkpoint_dir("pos"))
    assert written is not None
    assert written.served["rewards"] == served


def test_an_app_whose_stores_no_node_serves_does_not_start_with_more_partitions(tmp_path: Path) -> None:
    app, settings = topology_app("paired", topologies.paired, title=""), AppSettings(run_dir=tmp_path)
    three, six = (CountedTopics(dict.fromkeys(app.sources(settings), count)) for count in (3, 6))
    preflight(app, settings, three, ManualClock())
    with pytest.raises(PartitionsChangedError, match="has 6 partitions, but the state of paired was made with 3"):
        preflight(app, settings, six, ManualClock())
    preflight(app, settings, three, ManualClock())


def test_an_app_without_checkpoint_and_claim_starts_on_no_state(tmp_path: Path) -> None:
    counts = {SOURCE: 6, CHANGELOG: 4}
    settings = AppSettings(run_dir=tmp_path)
    claim = owner_file(settings.checkpoint_dir("pos"))
    with pytest.raises(UnusableCheckpointError, match=f"its topic {CHANGELOG} has records"):
        preflight(app_named("pos"), settings, CountedTopics(counts, written=7), ManualClock())
    assert not claim.exists(), "the next start refuses, too"
    begun(tmp_path, 6, 4)
    preflight(app_named("pos"), settings, CountedTopics(counts, written=7), ManualClock())


def counted(streams: StreamsBuilder, _: AppSettings) -> None:
    streams.stream("purchases", int).group_by_key().count(store="points")


def counted_and_joined(streams: StreamsBuilder, settings: AppSettings) -> None:
    counted(streams, settings)
    names = streams.table("customers", str, store="customers")
    streams.stream("purchases", int).join(names, lambda number, name: f"{number} {name}", values=str).to("joined")


def counted_apart(streams: StreamsBuilder, settings: AppSettings) -> None:
    counted(streams, settings)
    streams.table("customers", str, store="customers")


def started(run_dir: Path, describe: Describe) -> dict[str, Sequence[str]]:
    """The slots of an app after a start on one topology; its query has run."""
    app, settings = topology_app("points", describe, title=""), AppSettings(run_dir=run_dir)
    topics = CountedTopics(dict.fromkeys([*app.sources(settings), *own_topics(app, settings)], 1))
    claim = preflight(app, settings, topics, ManualClock()).claim
    checkpoint = settings.checkpoint_dir("points")
    assert isinstance(checkpoint, Path)
    checkpoint.mkdir(parents=True, exist_ok=True)
    (checkpoint / "metadata").write_bytes(b'{"id":"query"}')
    replace(claim, query_id="query").write(checkpoint)
    return dict(claim.slots)


def test_tasks_keep_their_names_when_a_topic_is_joined_that_sorts_earlier(tmp_path: Path) -> None:
    assert list(started(tmp_path, counted)) == ["purchases"]
    slots = started(tmp_path, counted_and_joined)
    assert slots == {"purchases": ["store customers", "store points", "topic customers", "topic purchases"]}
    app, settings = topology_app("points", counted_and_joined, title=""), AppSettings(run_dir=tmp_path)
    assert "points-gen-1-purchases-markers" in own_topics(app, settings, slots)
    assert "points-gen-1-customers-markers" not in own_topics(app, settings, slots)


@pytest.mark.parametrize(
    ("first", "then", "says"),
    [
        (counted_apart, counted_and_joined, "meet in the same tasks now"),
        (counted_and_joined, counted_apart, "were in the same tasks"),
        (counted_apart, counted, "nothing has topic customers"),
    ],
)
def test_tasks_that_can_not_go_on_do_not_start(tmp_path: Path, first: Describe, then: Describe, says: str) -> None:
    slots = started(tmp_path, first)
    with pytest.raises(UnusableCheckpointError, match=f"points generation 1 can't go on with this topology: .*{says}"):
        started(tmp_path, then)
    assert started(tmp_path, first) == slots


@pytest.mark.parametrize("topic", ["counted-totals-changelog", "counted-gen-1-counted-events-markers", "counted-dlq"])
def test_an_own_topic_that_does_not_keep_times_is_refused_by_name(tmp_path: Path, topic: str) -> None:
    spec, settings = topology_app("counted", topologies.counted, title=""), AppSettings(run_dir=tmp_path)
    topics = CountedTopics(dict.fromkeys([*spec.sources(settings), *own_topics(spec, settings)], 1))
    topics.stamped = ("counted-events", "counted-out")
    preflight(spec, settings, topics, ManualClock())
    topics.stamped = (*topics.stamped, topic)
    message = (
        f"topics of counted don't keep the times of records: {topic}. Set message.timestamp.type=CreateTime on each"
    )
    with pytest.raises(ConfigurationError, match=message):
        preflight(spec, settings, topics, ManualClock())


class CutTopics(CountedTopics):
    """Sources of one partition, each with the offsets from 50 to 90."""

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        first = Position({name: {0: 50} for name in names})
        return TopicBounds(first, Position({name: {0: 90} for name in first.offsets}))

    def committed_end(self, names: Iterable[str]) -> Position:
        return Position()


@pytest.mark.parametrize(("begins", "finished", "goes_on"), [(50, 1, True), (49, 1, False), (49, 2, True)])
def test_where_a_planned_batch_begins_to_read_a_topic_must_still_be_there(
    tmp_path: Path, begins: int, finished: int, *, goes_on: bool
) -> None:
    spec, settings = topology_app("merged", topologies.merged, title=""), AppSettings(run_dir=tmp_path)
    ends = [{"merged-left": {"0": 60}}, {"merged-left": {"0": 70}, "merged-right": {"0": 70}}]
    initial = {"merged-left": {"0": 0}, "merged-right": {"0": begins}}
    topics = CutTopics(dict.fromkeys([*spec.sources(settings), *own_topics(spec, settings)], 1))
    claim, path = preflight(spec, settings, topics, ManualClock()).claim, settings.checkpoint_dir("merged")
    write_checkpoint(path, ends, committed=finished, initial=initial)
    replace(claim, query_id=BatchCheckpoint(path).query_id()).write(path)
    refused = pytest.raises(
        UnusableCheckpointError, match=r"offset 49 of merged-right partition 0, .* offsets 50 to 90"
    )
    with nullcontext() if goes_on else refused:
        found = preflight(spec, settings, topics, ManualClock())
        assert found.position.offset("merged-right", 0) == (50 if finished == 1 else 70)


def test_a_topology_that_has_never_run_may_change(tmp_path: Path) -> None:
    app, settings = (
        (topology_app("points", describe, title="") for describe in (counted_apart, counted)),
        AppSettings(run_dir=tmp_path),
    )
    for spec in app:
        topics = CountedTopics(dict.fromkeys([*spec.sources(settings), *own_topics(spec, settings)], 1))
        claim = preflight(spec, settings, topics, ManualClock()).claim
    assert list(claim.slots) == ["purchases"]


def checkpoint_of(folder: Path, *ends: int | None) -> BatchCheckpoint:
    """A checkpoint whose batches end at these offsets; None for one that is deleted."""
    checkpoint = BatchCheckpoint(folder)
    for batch, end in enumerate(ends):
        if end is not None:
            checkpoint.plan(batch, Position({"pos": {0: 0}}), Position({"pos": {0: end}}))
    return checkpoint


def check_against(checkpoint: BatchCheckpoint, batch: int, end: int) -> None:
    marker = Marker(batch, {"pos": {0: (0, end)}}, {}, b"{}")
    check_newest(CheckpointOwner("pos", 2), checkpoint, {("pos-gen-2-pos-markers", 3): marker})


def test_a_checkpoint_that_has_planned_all_that_tasks_have_committed_is_the_newest(tmp_path: Path) -> None:
    checkpoint = checkpoint_of(tmp_path, None, 20, 30)
    for batch, end in ((2, 30), (1, 20), (0, 5)):
        check_against(checkpoint, batch, end)
    check_newest(CheckpointOwner("pos", 2), checkpoint, {})


@pytest.mark.parametrize(
    ("ends", "batch", "end", "says"),
    [
        ((10, 20), 2, 30, r"it ends with batch 1, and a task has committed batch 2 \(pos-gen-2-pos-markers\[3\]\)"),
        ((), 0, 10, "it ends with no batch, and a task has committed batch 0"),
        ((10, 20, 30), 1, 25, r"committed batch 1 with input to pos\[0\]@25, and it has planned 20"),
    ],
)
def test_an_older_copy_of_a_checkpoint_is_refused_with_a_way_out(
    tmp_path: Path, ends: tuple[int, ...], batch: int, end: int, says: str
) -> None:
    with pytest.raises(UnusableCheckpointError, match=f"older copy of the one of pos generation 2: .*{says}") as caught:
        check_against(checkpoint_of(tmp_path, *ends), batch, end)
    assert "put the newest one back, or start a new generation" in str(caught.value)


class MarkedTopics(CountedTopics):
    """Topics with one marker each, of batch 2, and topics that are missing."""

    def __init__(self, counts: Mapping[str, int], missing: Iterable[str] = ()) -> None:
        super().__init__(counts)
        self._missing = set(missing)

    def missing(self, names: Iterable[str]) -> list[str]:  # type: ignore[override]
        return [name for name in names if name in self._missing]

    def markers(self, names: Iterable[str], query_id: str) -> dict[tuple[str, int], Marker]:
        return {(name, 0): Marker(2, {"hadoop-sink": {0: (20, 30)}}, {}, b"{}") for name in names}


def test_an_older_copy_is_refused_of_an_export_too_whose_dead_letters_have_markers(tmp_path: Path) -> None:
    app, settings, source = app_named("hadoop_export"), AppSettings(run_dir=tmp_path), "hadoop-sink"
    markers = "hadoop_export-gen-1-hadoop-sink-markers"
    path = settings.checkpoint_dir(app.name)
    assert isinstance(path, Path)
    checkpoint_of(path)
    none, some = MarkedTopics({source: 1}, [markers]), MarkedTopics({source: 1})
    claim = preflight(app, settings, none, ManualClock()).claim
    BatchCheckpoint(path).begin("query")
    replace(claim, query_id="query").write(path)
    preflight(app, settings, none, ManualClock())
    with pytest.raises(UnusableCheckpointError, match=rf"older copy of the one of hadoop_export .*{markers}\[0\]"):
        preflight(app, settings, some, ManualClock())


class EndingTopics(CountedTopics):
    """A changelog of one partition: what readers see of it, and where what is committed ends."""

    def __init__(self, seen: int, committed: int) -> None:
        super().__init__({SOURCE: 1, CHANGELOG: 1})
        self._seen = seen
        self._committed = committed

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        listed = [*names]
        return TopicBounds(*(Position({name: {0: offset} for name in listed}) for offset in (0, 10)))

    def end(self, names: Iterable[str]) -> Position:
        return Position({name: {0: self._seen} for name in names})

    def committed_end(self, names: Iterable[str]) -> Position:
        return Position({name: {0: self._committed} for name in names})

    def markers(self, names: Iterable[str], query_id: str) -> dict[tuple[str, int], Marker]:
        return {(name, 0): Marker(0, {SOURCE: {0: (0, 10)}}, {}, b"{}", logs={CHANGELOG: 7}) for name in names}


def test_an_app_whose_changelog_has_lost_records_does_not_start_although_it_has_no_input(tmp_path: Path) -> None:
    app, settings = app_named("pos"), AppSettings(run_dir=tmp_path)
    path = settings.checkpoint_dir(app.name)
    assert isinstance(path, Path)
    claim = preflight(app, settings, CountedTopics({SOURCE: 1, CHANGELOG: 1}), ManualClock()).claim
    checkpoint_of(path, 10)
    BatchCheckpoint(path).begin("query")
    replace(claim, query_id="query").write(path)
    for seen, committed in ((7, 7), (9, 9), (3, 7)):
        preflight(app, settings, EndingTopics(seen, committed), ManualClock())
    lost = f"{CHANGELOG} ends at 3 in partition 0, and the task's marker has it at 7: it has lost records"
    with pytest.raises(LostChangelogError, match=lost):
        preflight(app, settings, EndingTopics(3, 3), ManualClock())
