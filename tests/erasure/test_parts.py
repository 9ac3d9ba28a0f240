"""The parts of an erasure: keys, the search, what keeps keys, local stores that go, and what a job may ask for."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storekeeper.apps.settings import AppSettings
from storekeeper.apps.spec import StoreSpec
from storekeeper.changelog.log_record import LogRecord
from storekeeper.cleanup.folder import CleanupFolder
from storekeeper.client.credentials import Credentials
from storekeeper.clock import SystemClock
from storekeeper.engine.runtime.lease import Lease
from storekeeper.erasure.archives import forget_archives, holds_on, left_by_generations
from storekeeper.erasure.copies import ErasedCopies
from storekeeper.erasure.folder import Noted
from storekeeper.erasure.keys import ErasedKeys
from storekeeper.erasure.planning import key_of
from storekeeper.erasure.search import Searched
from storekeeper.errors import InvalidArgumentError
from storekeeper.serdes.keys.windows import window_row_key
from storekeeper.stores.store_definitions import ServedKind
from storekeeper.verification.node_copies import NodeCopies
from tests.cleanup.plans import ID, PLAN

KEYS = ErasedKeys(ServedKind.KEY_VALUE, (b"alice-01", b"zoe-0001"))


def test_a_key_holds_its_own_rows_and_no_others() -> None:
    assert KEYS.holds(b"alice-01")
    assert KEYS.holds(b"zoe-0001")
    others: list[bytes | None] = [b"alice-0", b"alice-01\0", b"alice-012", b"bob", b"", None]
    for key in others:
        assert not KEYS.holds(key)
    windows = ErasedKeys(ServedKind.WINDOW, (b"alice",))
    assert windows.holds(window_row_key(b"alice", 60_000, 0))
    assert not windows.holds(window_row_key(b"alice2", 60_000, 0))


def test_a_key_without_rows_is_told_from_the_others() -> None:
    assert KEYS.without_rows([]) == {b"alice-01", b"zoe-0001"}
    assert KEYS.without_rows([b"alice-0", b"alice-01\0", b"zoe-0001"]) == {b"alice-01"}
    windows = ErasedKeys(ServedKind.WINDOW, (b"alice", b"zoe"))
    assert windows.without_rows([window_row_key(b"alice2", 60_000, 0), window_row_key(b"zoe", 60_000, 0)]) == {b"alice"}


def test_a_row_that_a_condition_names_stands_for_its_key_and_a_foreign_one_for_none() -> None:
    assert key_of(ServedKind.WINDOW, window_row_key(b"alice", 60_000, 0)) == b"alice"
    assert key_of(ServedKind.KEY_VALUE, b"alice") == b"alice"
    with pytest.raises(InvalidArgumentError, match="a key that no window store makes"):
        key_of(ServedKind.WINDOW, b"alice")


def test_hashes_tell_keys_apart_and_depend_on_the_salt() -> None:
    assert len({*KEYS.hashes(b"1"), *KEYS.hashes(b"2")}) == 4
    assert KEYS.hashes(b"1") == KEYS.hashes(b"1")


def test_bytes_are_found_in_texts_lists_and_structs_of_compressed_files_and_in_plain_ones(tmp_path: Path) -> None:
    columns = {
        "text": pa.array(["for alice-01", "x"]),
        "coded": pa.array(["x", "alice-01"]).dictionary_encode(),
        "many": pa.array([[b"x", b"zoe-0001"], None]),
        "deep": pa.array([{"a": [{"b": "zoe-0001"}]}, None]),
        "map": pa.array([[("alice-01", 1)], []], pa.map_(pa.string(), pa.int64())),
        "other": pa.array([1, 2]),
    }
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table(columns), tmp_path / "t" / "1.parquet", compression="zstd")
    (tmp_path / "plain.json").write_bytes(b'{"who": "zoe-0001"}')
    (tmp_path / "clean.json").write_bytes(b"{}")
    searched = Searched()
    searched.read_files(tmp_path, KEYS)
    assert {one.get("column", "") for one in searched.found} == {*columns, ""} - {"other"}
    assert (searched.files, searched.rows) == (3, [])


@pytest.mark.parametrize("key", ["alice-01", 'Zoë "Z"\\\n1', "日本-01", "a.*(b)|c", b"\xff\x00\xfe\x01"], ids=ascii)
def test_bytes_are_found_as_json_writes_them(key: str | bytes) -> None:
    plain = key if isinstance(key, bytes) else key.encode()
    keys = ErasedKeys(ServedKind.KEY_VALUE, (plain, b"another-key"))
    texts = [plain] if isinstance(key, bytes) else [plain, json.dumps(key).encode(), orjson.dumps({"who": key})]
    found = keys.are_in(pa.array([*texts, plain[:-1] + b"2", b"", None], pa.binary()))
    assert found.to_pylist() == [*([True] * len(texts)), False, False, False]


def test_any_number_of_keys_is_looked_for(tmp_path: Path) -> None:
    keys = ErasedKeys(ServedKind.KEY_VALUE, tuple(b"key-%06d" % number for number in range(1200)))
    (tmp_path / "notes.txt").write_bytes(b"of key-001199")
    pq.write_table(pa.table({"note": ["of key-000000", "of key-001200", "key-000600"]}), tmp_path / "1.parquet")
    searched = Searched()
    searched.read_files(tmp_path, keys)
    assert [one["values"] for one in searched.found] == [2, 1]


@pytest.mark.parametrize("size", [255, 256, 257, 100_000, 2_000_000])
def test_a_long_key_is_found_and_costs_no_more_than_its_bytes(size: int) -> None:
    key = b"k" * size
    found = ErasedKeys(ServedKind.KEY_VALUE, (key, b"short-01")).are_in(
        pa.array([b"a" + key + b"b", b"of short-01", key[1:], None])
    )
    assert found.to_pylist() == [True, True, False, False]


def test_a_row_in_a_table_of_the_store_is_no_place_elsewhere(tmp_path: Path) -> None:
    for name in ("words", "words_history", "others"):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"_key": [b"alice-01"]}), tmp_path / name / "1.parquet")
    searched = Searched()
    searched.read_files(tmp_path, KEYS, own=("words", "words_history"))
    assert searched.rows == ["words/1.parquet", "words_history/1.parquet"]


def test_a_file_that_can_not_be_read_is_named_and_stops_no_erasure(tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "1.parquet").write_bytes(b"PAR1 half written")
    searched = Searched()
    searched.read_files(tmp_path, KEYS)
    assert searched.found == [{"file": f"{tmp_path}/theirs/1.parquet", "unreadable": True}]


def test_a_table_that_is_a_link_is_searched_too(tmp_path: Path) -> None:
    disk = tmp_path / "disk" / "words"
    disk.mkdir(parents=True)
    pq.write_table(pa.table({"_key": [b"alice-01"]}), disk / "1.parquet")
    (tmp_path / "delta").mkdir()
    (tmp_path / "delta" / "words").symlink_to(disk)
    searched = Searched()
    searched.read_files(tmp_path / "delta", KEYS, own=("words",))
    assert searched.rows == ["words/1.parquet"]


def test_short_keys_are_looked_for_as_rows_alone(tmp_path: Path) -> None:
    (tmp_path / "words").mkdir()
    pq.write_table(pa.table({"_key": [b"7", b"17"], "n": ["7", "8"]}), tmp_path / "words" / "1.parquet")
    searched = Searched()
    searched.read_files(tmp_path, ErasedKeys(ServedKind.KEY_VALUE, (b"7",)), own=("words",))
    assert (searched.rows, searched.found) == (["words/1.parquet"], [])


@pytest.fixture
def settings(tmp_path: Path) -> AppSettings:
    return AppSettings(run_dir=tmp_path, kafka_bootstrap="127.0.0.1:1")


@pytest.fixture
def cleanups(tmp_path: Path) -> CleanupFolder:
    """Two clean-ups, the first of which has archived a row of a key."""
    folder = CleanupFolder(tmp_path / "cleanups" / "prices", "prices")
    other = replace(PLAN, cleanup_id="20260102T000000000Z")
    for plan, key in ((PLAN, b"alice-01"), (other, b"bob")):
        folder.put_plan(plan)
        folder.archive(plan).begin(0)
        folder.archive(plan).put(0, [LogRecord(1, 1, key, b"v")])
    return folder


def test_a_clean_up_that_can_be_undone_keeps_its_keys(settings: AppSettings, cleanups: CleanupFolder) -> None:
    (hold,) = holds_on(KEYS, cleanups, "prices", settings, PLAN.undo_ms - 1)
    assert f"clean-up {ID} of prices has rows of them archived" in hold
    assert forget_archives(KEYS, cleanups, PLAN.undo_ms - 1) == []
    assert holds_on(KEYS, cleanups, "prices", settings, PLAN.undo_ms) == []
    assert forget_archives(KEYS, cleanups, PLAN.undo_ms) == [ID]
    assert forget_archives(KEYS, cleanups, PLAN.undo_ms) == []


def test_a_promised_version_keeps_all_keys_of_its_table(settings: AppSettings, cleanups: CleanupFolder) -> None:
    promises = settings.run_dir / "promises" / "prices"
    promises.mkdir(parents=True)
    (promises / "report.json").write_text('{"version": 3, "until_ms": null}')
    (promises / "old.json").write_text('{"version": 1, "until_ms": 5}')
    (hold,) = holds_on(KEYS, cleanups, "prices", settings, PLAN.undo_ms)
    assert "report.json promises version 3 of table prices: remove it" in hold


def test_what_another_generation_left_keeps_all_keys(tmp_path: Path) -> None:
    first, live = "ticks-prices-changelog", "ticks-prices-changelog-g12"
    store = StoreSpec("prices", "ticks", (), topic=live)
    others = [f"{first}-gone", f"my-{first}", f"{first}-g12x"]
    (tmp_path / "ticks" / "gen-12").mkdir(parents=True)
    assert left_by_generations(store, first, 12, [live, *others], tmp_path) == []
    (tmp_path / "ticks" / "gen-1").mkdir()
    found = left_by_generations(store, first, 12, [first, f"{first}-g2", live], tmp_path)
    assert [one.partition(" of another generation is still there: ")[0] for one in found] == [
        f"changelog {first}", f"changelog {first}-g2", str(tmp_path / "ticks" / "gen-1")
    ]  # fmt: skip
    assert all("`storekeeper generation retire ticks --delete`" in one for one in found)


def test_local_stores_go_with_all_files_and_a_running_app_deletes_them_itself(settings: AppSettings) -> None:
    root = settings.state_dir / "ticks" / "gen-1"
    stores = {name: root / "slot" / name for name in ("0/prices", "0/prices.corrupt-17", "1/prices", "0/others")}
    for folder in stores.values():
        folder.mkdir(parents=True)
        (folder / "CURRENT").write_bytes(b"rows")
    noted = Noted([], partitions=[0])
    with NodeCopies([], Credentials()) as nodes:
        copies = ErasedCopies("prices", "ticks", nodes, [], root, settings, SystemClock())
        with Lease(settings.lease_file("ticks"), clock=SystemClock(), wait=lambda _: None) as lease:
            lease.acquire(0)
            (wait,) = copies.renew(KEYS, noted)
            assert "`storekeeper app stop ticks`" in wait
            assert {name for name, folder in stores.items() if folder.exists()} == {"0/prices", "1/prices", "0/others"}
        assert copies.renew(KEYS, noted) == []
        assert {name for name, folder in stores.items() if folder.exists()} == {"1/prices", "0/others"}
        stores["0/prices"].mkdir()
        assert copies.renew(KEYS, noted) == [], "one that was made anew stays"
        assert stores["0/prices"].exists()
