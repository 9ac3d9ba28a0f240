"""The checkpoint that a seed makes. Spark and the broker are played."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import KafkaError

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.topology_app import topology_app
from storekeeper.changelog.position import Position
from storekeeper.engine.driver.preflight import check_bounds
from storekeeper.engine.markers import Marker
from storekeeper.engine.runtime.checkpoint import BatchCheckpoint
from storekeeper.engine.runtime.checkpoint_owner import CheckpointOwner
from storekeeper.engine.runtime.topics import TopicBounds
from storekeeper.generations import seeding as seeding_module
from storekeeper.generations import steps
from storekeeper.generations.boundary import is_settled
from storekeeper.generations.catalog import first_journal
from storekeeper.generations.errors import GenerationPendingError, GenerationRefusedError
from storekeeper.generations.journal import BEGINNING
from storekeeper.generations.seed_checks import SeedCheck
from storekeeper.generations.seed_rows import Progress
from storekeeper.generations.seeding import Seeding
from storekeeper.topology import StreamsBuilder
from tests.apps.checkpoints import write_checkpoint

NAMES, SALES, RETURNS = "seeded-names", "seeded-sales", "seeded-returns"
NO_SESSION: Any = None


def by_name(streams: StreamsBuilder, _: AppSettings) -> None:
    """Counts sales whose item a global table names."""
    names = streams.global_table(NAMES, str)
    named = streams.stream(SALES, str).join(names, lambda _, name: name, on=lambda _, item: item, values=str)
    named.group_by_key().count(store="sold")


APP = topology_app("seeded", by_name, title="Reads a global table, too")


class PlayedTopics:
    """A broker whose topics have two partitions with the offsets 0 to 9."""

    def __init__(self, kafka: object) -> None:
        pass

    def bounds(self, names: Iterable[str]) -> TopicBounds:
        listed = list(names)
        return TopicBounds(_position(listed, 0), _position(listed, 9))

    committed_bounds = bounds

    def committed_end(self, names: Iterable[str]) -> Position:
        return _position(names, 9)

    def offsets_at(self, names: Iterable[str], timestamp_ms: int) -> Position:
        return _position(names, 4)

    def partition_counts(self, names: Iterable[str]) -> dict[str, int]:
        return dict.fromkeys(names, 2)

    def ids(self, names: Iterable[str]) -> dict[str, str]:
        return {name: f"id of {name}" for name in names}

    def names(self) -> list[str]:
        return []

    def own_config(self, name: str) -> dict[str, str]:
        return {}

    def recreate(self, name: str, partitions: int, config: Mapping[str, str]) -> None:
        pass


class PlayedProducer:
    def flush(self, timeout_s: float) -> int:
        return 0


class PlayedRows:
    def persist(self, level: object) -> PlayedRows:
        return self

    def unpersist(self) -> None:
        pass


def _position(names: Iterable[str], offset: int) -> Position:
    return Position({name: {0: offset, 1: offset} for name in names})


@pytest.fixture(autouse=True)
def broker(monkeypatch: pytest.MonkeyPatch) -> None:
    def live_progress(_: object, app: str, number: int, slots: Iterable[str], **__: object) -> dict[str, Progress]:
        return {slot: {} for slot in slots}

    monkeypatch.setattr(seeding_module, "Topics", PlayedTopics)
    monkeypatch.setattr(seeding_module, "new_producer", lambda *_: PlayedProducer())
    monkeypatch.setattr(seeding_module, "live_progress", live_progress)


def seeding(run_dir: Path, since: str | None = None) -> Seeding:
    """That of generation 2, while generation 1 has finished its batches 0 to 2."""
    journal = steps.planned(first_journal(APP), APP, [], since=since)
    found = Seeding(APP, AppSettings(run_dir=run_dir), journal.generation(1), journal.generation(2))
    ends = [{SALES: {"0": end, "1": end}} for end in (2, 5, 7)]
    write_checkpoint(found._live_checkpoint.path, ends, committed=3, initial=None)
    return found


def made_by(found: Seeding) -> BatchCheckpoint:
    """The checkpoint of the new generation."""
    return BatchCheckpoint(found.settings.in_generation(found.new.number).checkpoint_dir(APP.name))


@pytest.mark.parametrize(("since", "start"), [(BEGINNING, 0), ("2026-01-31T00:00:00Z", 4)])
def test_a_backfill_begins_in_the_topics_that_spark_reads(tmp_path: Path, since: str, start: int) -> None:
    found = seeding(tmp_path, since)
    assert NAMES in APP.sources(found.settings)
    made = found.from_input()
    begun = made_by(found).committed_position()
    assert made.start == begun == _position([SALES], start)
    # The check of its first start.
    check_bounds(APP, found.settings.in_generation(found.new.number), begun, PlayedTopics(None).bounds([SALES]))


@pytest.mark.parametrize("since", [None, BEGINNING])
def test_what_the_running_code_still_reads_must_be_a_source_of_the_new_generation(
    tmp_path: Path, since: str | None
) -> None:
    found = seeding(tmp_path, since)
    live = found._live_checkpoint
    through, gone = "seeded-again-repartition", "seeded-gone"
    read = [SALES, RETURNS, through, gone]
    start, end = (Position({topic: {0: offset} for topic in read}) for offset in (0, 9))
    live.plan(3, start, end)
    live.commit(3)
    # `gone` was read before the last start.
    ids = dict.fromkeys([SALES, NAMES, RETURNS, through], "id")
    claim = CheckpointOwner("seeded", 1, live.query_id(), ids, repartitions={through: "topic"})
    claim.write(live.path)
    with pytest.raises(
        GenerationRefusedError, match=r"would read seeded-names, seeded-sales, and the live one reads seeded-names, "
        "seeded-returns, seeded-sales: "
    ):  # fmt: skip
        found.from_input() if since else found.check()
    replace(claim, topic_ids=dict.fromkeys([SALES, NAMES, through], "id")).write(live.path)
    found._check_sources()


def test_the_live_app_may_run_on_for_long_while_its_rows_are_copied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def written(found: Seeding, *_: object) -> int:
        """Meanwhile Spark deletes what it wrote of the batch."""
        for folder in ("offsets", "commits"):
            (found._live_checkpoint.path / folder / "2").unlink(missing_ok=True)
        return 3

    def frames(*_: object) -> list[PlayedRows]:
        return [PlayedRows()]

    monkeypatch.setattr(Seeding, "_frames", frames)
    monkeypatch.setattr(SeedCheck, "of_frame", lambda *_: None)
    monkeypatch.setattr(Seeding, "_written", written)
    found = seeding(tmp_path)
    made = found.from_live(NO_SESSION)
    assert made.rows == 3
    assert made.start == made_by(found).committed_position() == _position([SALES], 7)
    assert is_settled(made_by(found))


def test_the_new_tasks_know_how_far_their_seeded_changelogs_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[Marker] = []

    class Keeping(PlayedProducer):
        def produce(self, topic: str, value: bytes, key: bytes, partition: int) -> None:
            written.append(Marker.decode(value))

    monkeypatch.setattr(seeding_module, "new_producer", lambda *_: Keeping())
    found = seeding(tmp_path)
    found._write_markers("query", {"sales": {1: b"{}"}})
    assert [marker.logs for marker in written] == [dict.fromkeys(found.new.topics.values(), 9)]


def test_a_seed_whose_progress_the_broker_refuses_is_not_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Refusing(PlayedProducer):
        def __init__(self, _: object, settings: Mapping[str, Any]) -> None:
            self._told = settings["on_delivery"]

        def produce(self, *_: object) -> None:
            pass

        def flush(self, timeout_s: float) -> int:
            self._told(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), None)
            return 0

    monkeypatch.setattr(seeding_module, "new_producer", Refusing)
    with pytest.raises(GenerationPendingError, match="does not take the progress of its tasks"):
        seeding(tmp_path)._write_markers("query", {"sales": {0: b"{}"}})
