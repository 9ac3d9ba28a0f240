"""Snapshots of a real changelog, whose app is played by the test."""

from __future__ import annotations

import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable

from harness.broker import Broker
from storekeeper.apps.registry import APPS
from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.partitioner import partition_for
from storekeeper.changelog.position import Position
from storekeeper.changelog.scan import Changelog
from storekeeper.clock import SystemClock
from storekeeper.errors import ChangelogError, SnapshotDamagedError
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots import job
from storekeeper.snapshots.columns import PLACE_MEANINGS, values_of
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.snapshots.fold import Current
from storekeeper.snapshots.history import history_of, newest_history
from storekeeper.snapshots.job import take_snapshots
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.table_restore import last_snapshot, restore_snapshot
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.stores.versioned import DELETED_VERSION, version_of
from tests.changelog.bad_records import KINDS, ROWS
from tests.local_tables import local_table
from tests.open_transactions import begun, ends_when_awaited
from tests.snapshot_tables import rows_in
from tests.snapshots.played_app import App, proven

pytestmark = [pytest.mark.broker]

_numbers = itertools.count()
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
WORDS = (ValueField("Word", "string"), ValueField("At", "timestamp"))


@pytest.fixture
def app(broker: Broker, tmp_path: Path) -> App:
    store = StoreSpec("words", f"snapshot-app-{next(_numbers)}", WORDS)
    broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
    return App(broker, AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap), store)


def test_an_app_that_never_ran_has_an_empty_snapshot(app: App) -> None:
    manifest, changed = app.snapshot()
    assert (manifest.row_count, manifest.delta_version, changed) == (0, 0, None)
    assert (manifest.source_offsets, manifest.generation) == (Position(), 1)
    assert app.rows() == {}
    assert app.snapshot() == (manifest, None)


def test_snapshots_follow_batches_with_updates_and_deletions(app: App) -> None:
    app.write(0, {"a": "apple", "b": "bread", "c": "cider"})
    app.write(1, {"a": "ale"})
    app.commit(1)
    first, changed = app.snapshot()
    assert changed == 3
    assert first.source_offsets == Position({"pos": {0: 10}})
    app.check(first)

    app.write(2, {"b": None, "d": "dough", "a": "anise", "x": None})
    app.commit(2)
    second, changed = app.snapshot()
    assert changed == 4
    assert second.delta_version == first.delta_version + 1
    app.check(second)
    assert app.snapshot() == (second, None)


def test_a_history_goes_on_while_its_table_waits(app: App) -> None:
    app.write(0, {"a": "apple", "b": "bread", "c": "cider"})
    app.commit(0)
    first, changed = app.snapshot(fold=False)
    assert changed == 3, "the first table doesn't wait"
    before = dict(app.content)
    later: list[dict[str, str | None]] = [{"a": "ale", "b": None}, {"d": "dough"}, {"a": None, "d": "date"}]
    for batch, changes in enumerate(later, 1):
        app.write(batch, changes)
        app.commit(batch)
        assert app.snapshot(fold=False) == (first, None)
        found = newest_history(history_of(local_table(app.settings, "words")))
        assert found is not None
        assert found.manifest.batch == batch
        assert (app.rows(), proven(app)) == (before, ())
    last, changed = app.snapshot()
    assert changed == 3, "of all that the history got since"
    app.check(last)
    assert proven(app) == ()


def test_the_tables_of_an_app_are_due_together(broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    app = next(app for app in APPS.values() if len(app.stores) > 1)
    stores = [replace(store, topic=f"due-together-{store.name}") for store in app.stores]
    for store in stores:
        broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap)
    for due in ({stores[-1].name}, set()):
        monkeypatch.setattr(job, "is_due", lambda store, *_, due=due: store.name in due)
        taken = take_snapshots(stores, settings, SystemClock(), live_from=0, when_due=True)
        assert [one.as_dict()["due"] for one in taken] == [bool(due)] * len(stores)
    assert all(one.due for one in take_snapshots(stores, settings, SystemClock(), live_from=0))


def test_the_tables_of_an_app_are_of_one_batch_though_it_commits_meanwhile(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = next(app for app in APPS.values() if len(app.stores) > 1)
    stores = [StoreSpec(one.name, spec.name, WORDS, topic=f"of-one-batch-{one.name}") for one in spec.stores]
    settings = AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap)
    apps = [App(broker, settings, store) for store in stores]
    for store in stores:
        broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})
    batches, take = itertools.count(), job.Snapshot.take

    def commits() -> None:
        batch = next(batches)
        for app in apps:
            app.write(batch, {"a": f"of batch {batch}"})
        apps[0].commit(batch)

    def taken_meanwhile(*arguments: Any, **options: Any) -> Any:
        taken = take(*arguments, **options)
        commits()
        return taken

    commits()
    monkeypatch.setattr(job.Snapshot, "take", taken_meanwhile)
    for first in (0, len(stores)):
        taken = take_snapshots(stores, settings, SystemClock(), live_from=3)
        assert [one.manifest.source_offsets for one in taken] == [Position({"pos": {0: 10 * first}})] * len(stores)
        assert [app.rows() for app in apps] == [{b"a": apps[0].encode(f"of batch {first}")}] * len(stores)
    histories = [newest_history(history_of(local_table(settings, store.name))) for store in stores]
    assert [found and found.manifest.live_from for found in histories] == [3] * len(stores)


def test_the_stores_of_an_app_are_taken_at_one_time(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it becomes the time of what they are, it cuts all of them alike."""
    times, app = list[int](), next(app for app in APPS.values() if len(app.stores) > 1)
    stores = [replace(store, topic=f"one-time-{store.name}") for store in app.stores]
    for store in stores:
        broker.create_topic(store.changelog_topic, config={"cleanup.policy": "compact"})

    class Noted(job.Snapshot):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            times.append(options["now_ms"])
            super().__init__(*arguments, **options)

    class Ticking(SystemClock):
        def now_ms(self) -> int:
            return super().now_ms() + 1000 * len(times)

    monkeypatch.setattr(job, "Snapshot", Noted)
    take_snapshots(stores, AppSettings(run_dir=tmp_path, kafka_bootstrap=broker.bootstrap), Ticking(), live_from=0)
    assert len(times) == len(stores)
    assert len(set(times)) == 1


def test_what_an_unfinished_batch_wrote_is_left_for_later(app: App) -> None:
    app.write(0, {"a": "apple", "b": "bread"})
    app.commit(0)
    committed = dict(app.content)
    app.write(1, {"a": "ale", "c": "cider"})
    manifest, _ = app.snapshot()
    assert app.rows() == committed
    assert manifest.source_offsets == Position({"pos": {0: 0}})
    # The batch runs again after a crash, writes the same once more, and is committed.
    app.write(1, {"a": "ale", "c": "cider"})
    app.commit(1)
    app.check(app.snapshot()[0])


def test_what_a_hanging_cleanup_hides_is_waited_for(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.write(1, {"a": "apple", "b": "bread"})
    hanging = begun(app.broker, app.store.changelog_topic, partition_for(b"a", 4))
    app.write(2, {"a": "ale", "b": "bun"})
    app.commit(2)
    ends_when_awaited(hanging, monkeypatch)
    app.check(app.snapshot()[0])


def test_rows_of_one_key_in_several_partitions_are_several_rows(app: App) -> None:
    """A store that a processor fills may have a key in each task, and anybody may write to the wrong partition."""
    app.write(0, {"a": "apple", "b": "bread"})
    producer = Producer({"bootstrap.servers": app.broker.bootstrap})
    headers = ChangelogHeaders(1, 0, 1, {}).encode()
    own = partition_for(b"a", 4)
    others = [partition for partition in range(4) if partition != own]
    for partition in others:
        for _ in range(9):  # so that their offsets are larger than that of the key's own row
            value = app.encode(f"of-{partition}")
            producer.produce(app.store.changelog_topic, value, b"a", partition, headers=headers, timestamp=1)
    assert producer.flush(30) == 0
    app.commit(0)
    manifest, _ = app.snapshot()
    assert (manifest.row_count, proven(app)) == (5, ())
    app.write(1, {"a": "ale"})
    app.commit(1)
    manifest, changed = app.snapshot()
    assert (manifest.row_count, changed, proven(app)) == (5, 1, ())


def test_the_next_generations_batches_come_later_than_all_of_this_one(app: App) -> None:
    app.write(7, {"a": "apple"})
    app.commit(7)
    app.write(0, {"a": "ale"}, generation=2)
    app.snapshot()
    assert app.rows() == {b"a": b'{"Word":"apple","At":1500}'}
    app.settings = app.settings.model_copy(update={"generation": 2})
    app.commit(0)
    manifest, _ = app.snapshot()
    assert manifest.generation == 2
    app.check(manifest)


def test_a_run_that_dies_before_its_commit_changes_nothing(app: App, monkeypatch: pytest.MonkeyPatch) -> None:
    app.write(0, {"a": "apple"})
    app.commit(0)
    with monkeypatch.context() as patch:
        patch.setattr(Current, "_write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            app.snapshot()
    assert newest_manifest(local_table(app.settings, "words")) is None
    app.check(app.snapshot()[0])


def test_records_that_are_no_rows_are_left_out_and_stop_no_snapshot(app: App) -> None:
    kinds = [kind for kind in KINDS if kind.broker_takes]
    assert len(kinds) > 40
    app.write(0, {"a": "apple", **{kind.name: "older" for kind in kinds}})
    app.write_kinds(kinds)
    app.commit(0)
    first, _ = app.snapshot()
    for kind in kinds:
        app.content.pop(kind.name.encode(), None)
    app.content |= {key: value for key, value in ROWS.items() if key is not None and value is not None}
    app.check(first)
    assert proven(app) == ()

    app.write(1, {"b": "bread"})
    app.write_kinds(kinds)
    app.commit(1)
    app.check(app.snapshot()[0])
    assert proven(app) == ()


def test_a_store_without_a_value_as_declared_has_no_snapshot(app: App) -> None:
    app.store = replace(app.store, value_fields=(*app.store.value_fields, ValueField("Missing", "bigint")))
    app.write(0, {"a": "apple"})
    app.commit(0)
    with pytest.raises(ChangelogError, match="is not a value of store words as declared"):
        app.snapshot()


def test_values_become_typed_columns_and_may_lack_a_field_that_is_nullable(app: App) -> None:
    app.store = replace(
        app.store, value_fields=(*app.store.value_fields, ValueField("Missing", "bigint", nullable=True))
    )
    app.write(0, {"a": "apple"})
    app.commit(0)
    app.snapshot()
    [row] = DeltaTable(local_table(app.settings, "words")).to_pyarrow_table().to_pylist()
    assert (row["Word"], row["At"].timestamp(), row["Missing"], row["_offset"]) == ("apple", 1.5, None, 0)


def test_a_table_of_versions_has_their_fields_and_none_of_a_deletion(app: App) -> None:
    app.store = replace(
        app.store, kind=ServedKind.VERSIONED, value_fields=(ValueField("Word", "string", nullable=True),)
    )
    app.encode = lambda word: version_of(b'{"Word":"%s"}' % word.encode()) if word else DELETED_VERSION
    app.write(0, {"a at 1": "apple", "a at 2": "", "a at 3": "ale"})
    app.commit(0)
    app.check(app.snapshot()[0])
    app.write(1, {"a at 1": None, "b at 1": "bread"})
    app.commit(1)
    manifest, _ = app.snapshot()
    app.check(manifest)
    assert manifest.kind is ServedKind.VERSIONED
    assert proven(app) == ()
    table = DeltaTable(local_table(app.settings, app.store.name)).to_pyarrow_table(columns=["_key", "Word"])
    assert dict(zip(*table.to_pydict().values(), strict=True)) == {
        b"a at 2": None,
        b"a at 3": "ale",
        b"b at 1": "bread",
    }


def test_a_changelog_that_was_made_anew_is_refused(app: App) -> None:
    app.write(0, {"a": "apple", "b": "bread", "c": "cider"})
    app.commit(0)
    app.snapshot()
    app.broker.delete_topic(app.store.changelog_topic)
    app.broker.create_topic(app.store.changelog_topic, config={"cleanup.policy": "compact"})
    with pytest.raises(ChangelogError, match="move the tables words and words_history and their seals away"):
        app.snapshot()


def test_a_row_whose_tombstone_is_gone_leaves_the_snapshot(app: App) -> None:
    app.write(0, {"a": "apple", "b": "bread"})
    app.commit(0)
    first, _ = app.snapshot()
    # Neither the row nor its tombstone is left, and later records are behind the snapshot's end.
    changelog = Changelog(app.broker.kafka, app.store.changelog_topic)
    for partition in changelog.partitions:
        app.broker.delete_records(app.store.changelog_topic, partition, changelog.stable_end(partition))
    app.content = {}
    app.write(1, {"b": "bread", **{str(number): "word" for number in range(40)}})
    app.commit(1)
    app.now_ms += DAY_MS - HOUR_MS
    second, changed = app.snapshot()
    app.check(second)
    assert (second.delta_version, changed) == (first.delta_version + 1, 41)
    assert proven(app) == ()
    assert app.snapshot() == (second, None)

    app.write(2, {"0": None, "1": "date"})
    app.commit(2)
    app.now_ms += DAY_MS - HOUR_MS - 1
    third, changed = app.snapshot()
    assert changed == 2, "Kafka keeps tombstones for a day by default"
    app.check(third)


@pytest.mark.long("test_job.py has a generation without a row, which takes the table over as well")
def test_another_generation_takes_the_table_over_in_one_commit_and_may_give_it_back(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    app.write(0, {"a": "apple", "b": "bread"})
    app.commit(0)
    first, _ = app.snapshot()
    old, content = app.store, dict(app.content)
    app.store = replace(
        old, topic=f"{old.changelog_topic}-g2", value_fields=(ValueField("Word", "string"), ValueField("At", "bigint"))
    )
    app.broker.create_topic(app.store.changelog_topic, config={"cleanup.policy": "compact"})
    app.content = {}
    app.write(0, {"c": "cider", "d": "dough"})
    app.write(0, {"d": None})
    with monkeypatch.context() as patch:
        patch.setattr(Current, "_write", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            app.snapshot()
    assert app.rows() == content, "a run that dies leaves the table to the generation before"
    second, changed = app.snapshot()
    assert (changed, second.changelog_topic) == (2, app.store.changelog_topic)
    assert second.delta_version == first.delta_version + 1, "there is no version in between"
    app.check(second)
    path = local_table(app.settings, "words")
    assert newest_manifest(path) == second
    assert rows_in(path, second) == app.content
    assert rows_in(path, first) == content, "the versions before stay readable"
    assert DeltaTable(path).to_pyarrow_table()["At"].to_pylist() == [1500]
    # As ever from then on, and back.
    app.write(1, {"e": "endive"})
    app.commit(1)
    app.check(app.snapshot()[0])
    app.store, app.content = old, content
    app.write(1, {"a": "ale"})
    app.check(app.snapshot()[0])


def test_a_generation_without_a_row_empties_the_table(app: App) -> None:
    app.write(0, {"a": "apple"})
    app.commit(0)
    app.snapshot()
    app.store = replace(app.store, topic=f"{app.store.changelog_topic}-g2")
    app.broker.create_topic(app.store.changelog_topic, config={"cleanup.policy": "compact"})
    app.content = {}
    app.check(app.snapshot()[0])


def test_a_table_says_what_it_holds_also_after_another_generation_replaced_its_rows(app: App) -> None:
    app.store = replace(app.store, value_fields=(ValueField("Word", "string", meaning="The word."), *WORDS[1:]))
    app.write(0, {"a": "apple"})
    app.commit(0)
    app.snapshot()
    meaning = f"Snapshots of store words of app {app.store.app}: Words of a test."
    said = {"": meaning, "Word": "The word.", "At": "", **PLACE_MEANINGS}
    assert app.comments() == said

    fields = (*app.store.value_fields, ValueField("Length", "bigint", nullable=True, meaning="Its length."))
    app.store = replace(app.store, topic=f"{app.store.changelog_topic}-g2", value_fields=fields)
    app.broker.create_topic(app.store.changelog_topic, config={"cleanup.policy": "compact"})
    app.content = {}
    app.write(1, {"b": "bread"})
    app.commit(1)
    app.check(app.snapshot()[0])
    assert app.comments() == {**said, "Length": "Its length."}
    app.write(2, {"c": "cider"})
    app.commit(2)
    app.check(app.snapshot()[0])
    assert app.comments() == {**said, "Length": "Its length."}
    assert proven(app) == ()


def damage(path: Path, kind: str) -> None:
    """What somebody's own Spark, deltalake or disk did to the table."""
    log = max((path / "_delta_log").glob("*.json"))
    if kind == "update":
        DeltaTable(path).update(updates={"Word": "'evil'"}, predicate="Word = 'bread'")
    elif kind == "file":
        file = next(file for file in map(Path, DeltaTable(path).file_uris()) if b"bread" in file.read_bytes())
        file.write_bytes(file.read_bytes().replace(b"bread", b"BREAD", 1))
    else:
        log.write_bytes(log.read_bytes()[: {"empty log": 0, "torn log": 99}[kind]])


def test_no_snapshot_is_taken_of_a_table_that_is_not_as_the_one_before_left_it(app: App) -> None:
    app.write(0, {"a": "apple", "b": "bread"})
    app.commit(0)
    app.snapshot()
    app.write(1, {"c": "cider"})
    app.commit(1)
    app.snapshot()
    assert proven(app) == ()
    path = local_table(app.settings, "words")
    sound = app.settings.run_dir / "sound"
    shutil.copytree(path, sound)
    app.write(2, {"d": "dough"})
    app.commit(2)
    for kind in ("update", "file", "torn log", "empty log"):
        damage(path, kind)
        damaged = {file.name: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        with pytest.raises(SnapshotDamagedError, match="snapshot restore words"):
            app.snapshot()
        assert {file.name: file.read_bytes() for file in path.rglob("*") if file.is_file()} == damaged
        if kind != "empty log":
            shutil.rmtree(path)
            shutil.copytree(sound, path)
    sealed = SealedTable.of(app.settings, "words")
    manifest = last_snapshot(sealed)
    assert manifest is not None
    assert restore_snapshot(sealed, manifest, values_of(app.store, app.settings)) is not None
    assert proven(app) == ()
    app.check(app.snapshot()[0])
    assert proven(app) == ()
