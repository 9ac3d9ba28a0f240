"""Histories of stores, and the tables that are folded from them: what random lives of a store don't reach."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from storekeeper.changelog.headers import ChangelogHeaders
from storekeeper.changelog.log_record import LogRecord
from storekeeper.clock import DAY_MS
from storekeeper.errors import ChangelogError, NotExactError, SnapshotDamagedError, StorageError
from storekeeper.locations import delete_tree
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots import seal
from storekeeper.snapshots.as_of import HISTORY
from storekeeper.snapshots.delta_log import newest_manifest
from storekeeper.snapshots.history import HistoryManifest, newest_history
from storekeeper.snapshots.history_upkeep import HistoryUpkeep
from storekeeper.snapshots.seal import SealedTable
from storekeeper.snapshots.sql import query
from storekeeper.snapshots.table_writer import TableWriter
from tests.snapshot_tables import sealed_at
from tests.snapshots.played_log import STORE, PlayedLog, PlayedStore, batch_of
from tests.snapshots.test_history_model import KilledError, fold, is_exact

if TYPE_CHECKING:
    from collections.abc import Mapping

DAY = 20_000
BEGIN_MS = DAY * DAY_MS


@pytest.fixture
def played(tmp_path: Path) -> PlayedStore:
    return PlayedStore(tmp_path, PlayedLog("log-1"), now_ms=BEGIN_MS, tombstones_ms=99 * DAY_MS)


def write(played: PlayedStore, *batches: dict[str, str | None], days: int = 0) -> HistoryManifest:
    """Batches after those that there are, each some days after the one before, and a snapshot after each."""
    found = newest_history(played.entry(HISTORY).path)
    number = -1 if found is None else found.manifest.batch
    for changes in batches:
        number += 1
        played.now_ms += days * DAY_MS + 1000
        played.log.batch(number, played.now_ms, changes)
        played.take(batch_of(1, number, played.now_ms), number)
    return manifest_of(played)


def manifest_of(played: PlayedStore) -> HistoryManifest:
    found = newest_history(played.entry(HISTORY).path)
    assert found is not None
    return found.manifest


def rows(played: PlayedStore, suffix: str = "") -> list[dict[str, Any]]:
    return DeltaTable(str(played.entry(suffix).path)).to_pyarrow_table().to_pylist()


def test_a_change_is_a_row_with_its_place_and_its_batch(played: PlayedStore) -> None:
    write(played, {"a": "ale", "b": "bread"}, {"b": None})
    changes = sorted(rows(played, HISTORY), key=lambda row: (row["_batch"], row["_key"]))
    assert [(row["Word"], row["_key"], row["_value"]) for row in changes] == [
        ("ale", b"a", b'{"Word":"ale"}'),
        ("bread", b"b", b'{"Word":"bread"}'),
        (None, b"b", None),
    ]
    last = {name: content for name, content in changes[-1].items() if name not in {"Word", "_key", "_value", "_day"}}
    assert last == {
        "_partition": 0,
        "_offset": 2,
        "_timestamp_ms": 7,
        "_schema_version": 1,
        "_generation": 1,
        "_batch": 1,
        "_batch_ms": BEGIN_MS + 2000,
    }
    schema = DeltaTable(str(played.entry(HISTORY).path)).schema()
    assert schema.fields[0].metadata == {"comment": "The word."}


def test_nothing_is_written_while_nothing_is_new(played: PlayedStore) -> None:
    write(played, {"a": "ale"})
    versions = [DeltaTable(str(played.entry(suffix).path)).version() for suffix in ("", HISTORY)]
    assert played.take(batch_of(1, 0, played.now_ms), 0)[1] is None
    assert [DeltaTable(str(played.entry(suffix).path)).version() for suffix in ("", HISTORY)] == versions


def test_a_seal_of_a_history_reads_none_of_its_old_commits(
    played: PlayedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(played, {"a": "ale"}, {"a": "anise"})
    monkeypatch.setattr(seal, "newest_manifest", lambda _: pytest.fail("it looks for a snapshot"))
    assert sealed_at(played.entry(HISTORY).path).sealed().version == 1


def test_a_run_that_another_has_overtaken_can_not_commit(played: PlayedStore) -> None:
    """It has lost its lease, and goes on after the other run is done."""
    write(played, {"a": "ale"})
    zombies = [(TableWriter(played.entry(suffix)), mode) for suffix, mode in (("", "overwrite"), (HISTORY, "append"))]
    before = write(played, {"a": "anise"})
    for zombie, mode in zombies:
        assert zombie.table is not None
        batches = zombie.table.to_pyarrow_table().to_batches()
        with pytest.raises(StorageError, match=r"can't be written \(Failed to commit transaction"):
            zombie.write(iter(batches), batches[0].schema, before.to_json(), mode=mode)  # type: ignore[arg-type]
    assert manifest_of(played) == before
    assert played.flaws() == []
    write(played, {"c": "cider"})
    assert sorted(row["Word"] for row in rows(played)) == ["anise", "cider"]
    assert sorted(row["Word"] for row in rows(played, HISTORY)) == ["ale", "anise", "cider"]


def test_a_changelog_that_ends_before_the_history_is_refused(played: PlayedStore) -> None:
    write(played, {"a": "ale", "c": "cider"})
    played.log = PlayedLog("log-1")
    with pytest.raises(ChangelogError, match="move the tables words and words_history and their seals away"):
        write(played, {"a": "ale"})


def test_a_changelog_that_begins_behind_the_history_is_refused(
    played: PlayedStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(played, {"a": "ale", "c": "cider"})
    monkeypatch.setattr(played.log, "committed", lambda at: (played.log.ends[at], played.log.ends[at]))
    with pytest.raises(ChangelogError, match="the topic was recreated or is cut off"):
        write(played, {"a": "anise"})


@pytest.mark.parametrize(("waited_ms", "eras"), [(DAY_MS - 3_600_001, 1), (DAY_MS - 3_600_000, 2)])
def test_an_era_begins_while_deletions_may_still_be_in_the_changelog(
    played: PlayedStore, waited_ms: int, eras: int
) -> None:
    """They may go while it is read."""
    before = write(played, {"a": "ale", "c": "cider"})
    played.tombstones_ms = DAY_MS
    played.log.batch(1, played.now_ms + 1, {"a": None})
    if eras == 2:
        played.log.forget_deletions()
    batch = batch_of(1, 1, played.now_ms + 1)
    played.now_ms += waited_ms
    played.take(batch, 1)
    manifest = manifest_of(played)
    assert (len(manifest.eras), manifest.gaps) == (eras, ())
    assert [fold(rows(played, HISTORY), manifest, at_ms) for at_ms in (before.exact_to_ms, batch.at_ms)] == [
        {"a": "ale", "c": "cider"},
        {"c": "cider"},
    ]
    assert [row["Word"] for row in rows(played)] == ["cider"]


def test_the_time_in_which_another_generation_was_live_is_a_gap(played: PlayedStore) -> None:
    """It came and went between two snapshots, and its rows are in no history."""
    before = write(played, {"a": "ale"}, {"c": "cider"})
    played.live_from = 3  # after two batches, in whose place those of the other one were read
    after = write(played, {}, {"a": "apple"})
    assert after.gaps == ((before.exact_to_ms + 1, after.exact_to_ms - 1000),)
    assert (len(after.eras), {row["Word"] for row in rows(played)}) == (2, {"apple", "cider"})
    again = write(played, {"a": "ale"})
    assert (again.gaps, again.eras) == (after.gaps, after.eras)


def test_a_first_pass_that_lacks_a_row_that_came_and_went_is_not_exact_before(played: PlayedStore) -> None:
    at_ms = played.now_ms
    changes: list[Mapping[str, str | None]] = [{"a": "ale"}, {"c": "cider"}, {"c": None}]
    for number, each in enumerate(changes):
        played.log.batch(number, at_ms + number, each)
    played.log.remove((1, 2))
    played.log.remove((1, 4))  # the deletion too: it was old
    manifest = played.append(batch_of(1, 2, at_ms + 2), 2)
    assert [is_exact(manifest, at_ms + number) for number in range(3)] == [False, False, True]
    assert fold(rows(played, HISTORY), manifest, at_ms + 2) == {"a": "ale"}


def test_a_history_that_another_program_wrote_to_is_refused(played: PlayedStore) -> None:
    write(played, {"a": "ale"})
    DeltaTable(str(played.entry(HISTORY).path)).delete("_key = X'61'")
    with pytest.raises(SnapshotDamagedError, match=r"words_history isn't as it was sealed .* by DELETE.* Move"):
        played.take(batch_of(1, 0, played.now_ms), 0)
    shutil.rmtree(str(played.entry(HISTORY).path))
    sealed_at(played.entry(HISTORY).path).file.unlink(missing_ok=True)
    played.take(batch_of(1, 0, played.now_ms), 0)
    manifest = manifest_of(played)
    assert manifest.exact_from_ms == manifest.exact_to_ms == played.now_ms + 1, "later than what the table tells of"
    assert [row["Word"] for row in rows(played)] == ["ale"]
    assert played.flaws() == []


def test_a_hole_that_compaction_left_is_said_and_closes_with_the_changes_that_made_it(played: PlayedStore) -> None:
    first = write(played, {"a": "ale"})
    log, at_ms = played.log, played.now_ms
    for number, word in ((1, "anise"), (2, "apple"), (3, "acorn")):
        log.batch(number, at_ms + number, {"a": word, "c": word})
    log.remove((1, 2))  # a, of batch 1
    log.remove((1, 5))  # a, of batch 2
    held = played.append(batch_of(1, 2, at_ms + 2), 3)
    assert first.gaps == ()
    assert held.gaps == ((at_ms + 1, at_ms + 3),), "what replaced it is in batch 3, which has not finished"
    whole = played.append(batch_of(1, 3, at_ms + 3), 3)
    assert (whole.gaps, whole.hides, whole.exact_from_ms) == (((at_ms + 1, at_ms + 3),), {}, first.exact_from_ms)
    assert fold(rows(played, HISTORY), whole, at_ms + 3) == {"a": "acorn", "c": "acorn"}


def test_a_hole_stays_open_until_all_that_made_it_is_there(played: PlayedStore) -> None:
    write(played, {"a": "ale"})
    at_ms = played.now_ms
    for number, changes in ((1, {"a": "anise", "c": "cider"}), (2, {"e": "endive"}), (3, {"a": "acorn"})):
        played.log.batch(number, at_ms + number, changes)
    played.log.remove((1, 2))  # a, of batch 1
    gaps = [played.append(batch_of(1, number, at_ms + number), 3).gaps for number in (1, 2, 3)]
    assert gaps == [((at_ms + 1, at_ms + 2),), ((at_ms + 1, at_ms + 3),), ((at_ms + 1, at_ms + 3),)]


def test_a_history_that_begins_with_a_hole_is_exact_behind_it(played: PlayedStore) -> None:
    at_ms = played.now_ms
    played.log.batch(0, at_ms, {"c": "cider", "a": "ale"})
    played.log.batch(1, at_ms + 1, {"c": "cola"})
    played.log.remove((1, 0))
    manifest = played.append(batch_of(1, 1, at_ms + 1), 1)
    assert (manifest.exact_from_ms, manifest.gaps) == (at_ms + 1, ())


def test_changes_whose_number_was_never_told_may_lack_some(played: PlayedStore) -> None:
    """The change with the count was replaced by another program's."""
    before = write(played, {"a": "ale", "c": "cider"})
    at_ms = played.now_ms + 5
    played.log.batch(1, at_ms, {"a": "anise", "c": "cola"})
    played.log.remove((1, 4))
    played.log.logs[1][6] = LogRecord(6, 9, b"c", b'{"Word":"x"}', ())
    played.log.ends[1] = 7
    assert played.append(batch_of(1, 1, at_ms), 1).gaps == ((before.exact_to_ms + 1, at_ms),)


def test_a_record_that_names_a_batch_that_was_never_planned_ends_nothing(played: PlayedStore) -> None:
    write(played, {"a": "ale"})
    headers = ChangelogHeaders(1, 99, played.now_ms, {}).encode()
    played.log.logs[1][2] = LogRecord(2, 9, b"c", b'{"Word":"x"}', headers)
    played.log.ends[1] = 3
    manifest = write(played, {"e": "endive"})
    assert manifest.changelog_offsets[1] == played.log.ends[1]
    assert fold(rows(played, HISTORY), manifest, played.now_ms) == {"a": "ale", "c": "x", "e": "endive"}


def test_a_batch_that_was_planned_before_its_era_began_comes_after_its_beginning(played: PlayedStore) -> None:
    before = write(played, {"a": "ale"})
    planned_ms = played.now_ms
    played.log, played.now_ms = PlayedLog("log-2", 2), planned_ms + 60_000
    played.log.seed(planned_ms - 500, {"b": "bread"})
    played.take(batch_of(2, 0, planned_ms - 400), 0)
    assert manifest_of(played).eras == (before.exact_to_ms, played.now_ms)
    played.log.batch(1, planned_ms + 1000, {"c": "cider"})
    played.take(batch_of(2, 1, planned_ms + 1000), 1)
    manifest = manifest_of(played)
    assert manifest.exact_to_ms == played.now_ms + 1
    assert [fold(rows(played, HISTORY), manifest, at_ms) for at_ms in (before.exact_to_ms, manifest.exact_to_ms)] == [
        {"a": "ale"},
        {"b": "bread", "c": "cider"},
    ]
    assert sorted(row["Word"] for row in rows(played)) == ["bread", "cider"]
    assert played.flaws() == []


def test_no_change_of_the_generation_before_is_within_an_era(played: PlayedStore) -> None:
    """A clean-up had written while a batch was under way, after the time of the next generation's last batch."""
    before = write(played, {"a": "ale"}, {"a": "ant"}, {"a": "apple"})
    played.log.cleanup("a", before.exact_to_ms + 50_000)
    played.now_ms = before.exact_to_ms + 60_000
    played.take(batch_of(1, 2, before.exact_to_ms), 3)
    played.log, played.now_ms = PlayedLog("log-2", 2), before.exact_to_ms + 90_000
    played.log.seed(before.exact_to_ms, {"a": "apple"})
    played.log.batch(1, before.exact_to_ms + 30_000, {"a": "anise"})
    played.take(batch_of(2, 1, before.exact_to_ms + 30_000), 1)
    assert [row["Word"] for row in rows(played)] == ["anise"]
    manifest = manifest_of(played)
    assert fold(rows(played, HISTORY), manifest, manifest.exact_to_ms) == {"a": "anise"}
    assert played.flaws() == []


def test_a_clean_up_of_an_app_that_rests_comes_after_its_last_batch(played: PlayedStore) -> None:
    before = write(played, {"a": "ale", "c": "cider"})
    cleaned_ms = played.now_ms + 5000
    played.log.cleanup("a", cleaned_ms)
    played.now_ms += 9000
    played.take(batch_of(1, 0, before.exact_to_ms), 0)
    assert manifest_of(played).exact_to_ms == before.exact_to_ms
    assert [row["Word"] for row in rows(played)] == ["cider"]
    assert played.take(batch_of(1, 0, before.exact_to_ms), 0)[1] is None, "it is folded once"
    manifest = write(played, {"e": "endive"})
    known = [fold(rows(played, HISTORY), manifest, at_ms) for at_ms in (cleaned_ms - 1, cleaned_ms)]
    assert known == [{"a": "ale", "c": "cider"}, {"c": "cider"}]
    assert played.flaws() == []


def test_a_history_of_an_app_that_rests_goes_on(played: PlayedStore) -> None:
    last_ms = write(played, {"a": "ale"}).exact_to_ms
    played.now_ms += 3_600_000
    played.take(batch_of(1, 0, last_ms), 1)
    assert manifest_of(played).exact_to_ms == last_ms, "a batch is planned: it may have any time since"
    version, _ = played.take(batch_of(1, 0, last_ms), 0)
    assert manifest_of(played).exact_to_ms == played.now_ms - 10_000, "the clocks of two hosts may differ"
    assert version.batch_ms == last_ms, "the table has not changed"
    late = write(played, {"a": "ant"}).exact_to_ms
    known = [fold(rows(played, HISTORY), manifest_of(played), at_ms) for at_ms in (late - 1, late)]
    assert known == [{"a": "ale"}, {"a": "ant"}]
    assert played.flaws() == []


def test_a_batch_whose_clock_is_behind_does_not_change_what_was_known(played: PlayedStore) -> None:
    last_ms = write(played, {"a": "ale"}).exact_to_ms
    played.now_ms += 3_600_000
    played.take(batch_of(1, 0, last_ms), 0)
    known_ms = manifest_of(played).exact_to_ms
    played.log.batch(1, known_ms - 5000, {"a": "ant"})
    played.take(batch_of(1, 1, known_ms - 5000), 1)
    known = [fold(rows(played, HISTORY), manifest_of(played), at_ms) for at_ms in (known_ms, known_ms + 1)]
    assert known == [{"a": "ale"}, {"a": "ant"}]
    assert played.flaws() == []


@pytest.mark.parametrize("next_one", ["a run", "upkeep"])
@pytest.mark.parametrize("sealed", [0, 1])
def test_a_commit_that_its_writer_could_not_seal_is_taken_back(
    played: PlayedStore, monkeypatch: pytest.MonkeyPatch, sealed: int, next_one: str
) -> None:
    """Nothing says any more what it held, so nothing of it may stay."""
    for number, changes in enumerate([{"a": "ale"}, {"a": "anise", "b": "bread"}][: sealed + 1]):
        played.now_ms += 1000
        played.log.batch(number, played.now_ms, changes)
        batch = batch_of(1, number, played.now_ms)
        if number < sealed:
            played.take(batch, number)
    with monkeypatch.context() as patch:
        patch.setattr(SealedTable, "_made", killed)
        with pytest.raises(KilledError):
            played.append(batch, sealed)
    path = played.entry(HISTORY).path
    DeltaTable(str(path)).delete("_key = X'61'")
    if next_one == "upkeep":
        done = HistoryUpkeep(sealed_at(path), "words", played.now_ms).run(kept_ms=DAY_MS, versions_ms=DAY_MS)
        assert (done is not None) is bool(sealed)
        assert [row["Word"] for row in (rows(played, HISTORY) if sealed else [])] == ["ale"] * sealed
    played.take(batch, sealed)
    assert sorted(row["Word"] for row in rows(played, HISTORY)) == (["ale", "anise", "bread"] if sealed else ["ale"])
    assert played.flaws() == []


def killed(*_: Any) -> None:
    raise KilledError


def test_new_columns_are_in_the_changes_of_before_too(played: PlayedStore) -> None:
    write(played, {"a": "ale"}, {"a": None, "b": "bread"})
    fields = (*STORE.value_fields, ValueField("Size", "bigint", nullable=True))
    played.store = replace(STORE, value_fields=fields)
    manifest = write(played, {"c": "cider"})
    assert list(manifest.columns) == ["Word", "Size"]
    assert sorted(str(row["Word"]) for row in rows(played, HISTORY)) == ["None", "ale", "bread", "cider"]
    assert list(rows(played)[0])[:2] == ["Word", "Size"]
    assert played.flaws() == []


def test_old_changes_go_but_the_newest_of_each_key_and_closed_days_are_sorted(played: PlayedStore) -> None:
    words = ("x", "y", "z")
    write(played, *({"c": word, "a": word, "b": word if word != "z" else None} for word in words), days=1)
    write(played, {"d": "q", "c": "q"}, {}, days=1)
    before = {at_ms: fold(rows(played, HISTORY), manifest_of(played), at_ms) for at_ms in times(played)}
    upkeep = HistoryUpkeep(sealed_at(played.entry(HISTORY).path), "words", played.now_ms)
    done = upkeep.run(kept_ms=DAY_MS, versions_ms=DAY_MS)
    assert done is not None
    manifest = manifest_of(played)
    assert manifest.exact_from_ms == BEGIN_MS + 4 * DAY_MS
    for at_ms, content in before.items():
        if at_ms >= manifest.exact_from_ms:
            assert fold(rows(played, HISTORY), manifest, at_ms) == content
    kept = sorted((row["_key"], str(row["Word"])) for row in rows(played, HISTORY))
    assert kept == [(b"a", "z"), (b"b", "None"), (b"c", "q"), (b"c", "z"), (b"d", "q")]
    for file in DeltaTable(str(played.entry(HISTORY).path)).file_uris():
        keys = pq.read_table(file)["_key"].to_pylist()
        assert keys == sorted(keys)
    version = DeltaTable(str(played.entry(HISTORY).path)).version()
    again = HistoryUpkeep(sealed_at(played.entry(HISTORY).path), "words", played.now_ms)
    nothing = {**done, "sorted_days": 0, "vacuumed_files": 0}
    assert again.run(kept_ms=DAY_MS, versions_ms=DAY_MS) == nothing
    assert DeltaTable(str(played.entry(HISTORY).path)).version() - version <= 2, "VACUUM notes its begin and its end"
    assert played.flaws() == []
    assert write(played, {"e": "e"}).exact_from_ms == manifest.exact_from_ms
    assert played.flaws() == []


def times(played: PlayedStore) -> list[int]:
    return sorted({row["_batch_ms"] + more for row in rows(played, HISTORY) for more in (0, 1)})


@pytest.mark.parametrize("kind", ["edited", "dropped", "more", "table"])
def test_a_history_that_is_not_the_changelog_or_a_table_that_is_not_its_fold_is_found(
    played: PlayedStore, kind: str
) -> None:
    manifest = write(played, {"a": "ale", "b": "bread", "d": "dough"}, {"b": "beer", "d": None})
    assert played.flaws() == []
    path = played.entry("" if kind == "table" else HISTORY).path
    table = DeltaTable(str(path)).to_pyarrow_table()
    found = table.to_pylist()
    if kind in {"edited", "table"}:
        found[0]["_value"] = b'{"Word":"evil"}'
    elif kind == "dropped":
        found.pop(0)
    else:
        found.append({**found[0], "_offset": 99})
    writer, text = TableWriter(played.entry("" if kind == "table" else HISTORY)), manifest.to_json()
    if kind == "table":
        snapshot = newest_manifest(path)
        assert snapshot is not None
        text = snapshot.to_json()
    batches = table.from_pylist(found, table.schema).to_batches()
    writer.write(iter(batches), table.schema, text, mode="overwrite")
    said = {"edited": "isn't what the", "dropped": "lacks what", "more": "beyond its end", "table": "isn't its fold"}
    assert said[kind] in "; ".join(played.flaws())


def test_records_of_nobody_are_changes_too(played: PlayedStore) -> None:
    write(played, {"a": "ale", "c": "cider"})
    log = played.log
    log.logs[1][3] = LogRecord(3, 9, b"a", None, ())
    log.logs[1][4] = LogRecord(4, 9, b"c", b'{"Word":"x"}', [("schema-version", b"1"), ("batch-time", b"9" * 18)])
    log.ends[1] = 5
    manifest = write(played, {"e": "endive"})
    assert manifest.gaps == ()
    assert fold(rows(played, HISTORY), manifest, played.now_ms) == {"c": "x", "e": "endive"}
    assert played.flaws() == []


def test_sql_reads_the_rows_of_a_time_from_it(played: PlayedStore) -> None:
    write(played, {"a": "ale", "b": "bread"}, {"b": None, "c": "cider"})
    at_ms = manifest_of(played).exact_to_ms
    asked = "SELECT Word FROM words ORDER BY Word"
    assert query(played.root, asked, as_of_ms=at_ms - 1000).rows == (("ale",), ("bread",))
    assert query(played.root, asked, as_of_ms=at_ms).rows == query(played.root, asked).rows == (("ale",), ("cider",))


@pytest.mark.parametrize("name", ["_key", "_Partition", "_batch_ms"])
def test_a_field_that_is_named_as_a_technical_column_has_none(tmp_path: Path, name: str) -> None:
    fields = (*STORE.value_fields, ValueField(name, "string"))
    played = PlayedStore(tmp_path, PlayedLog("log-1"), replace(STORE, value_fields=fields), BEGIN_MS)
    write(played, {"a": "ale"})
    (row,) = rows(played)
    assert (row["Word"], row["_key"], name in row) == ("ale", b"a", name == "_key")
    assert played.flaws() == []


def test_a_store_without_its_history_has_no_past(played: PlayedStore) -> None:
    """Its table has versions, but none is at the end of the batch before a time."""
    at_ms = write(played, {"a": "ale"}).exact_to_ms
    delete_tree(played.entry(HISTORY).path)
    with pytest.raises(NotExactError, match="there is no history of it"):
        query(played.root, "FROM words", as_of_ms=2 * at_ms)
    assert len(query(played.root, "FROM words").rows) == 1
