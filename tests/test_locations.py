"""Locations without a store; `tests/integration/storage` has those with HDFS and S3."""

from __future__ import annotations

import hashlib
from pathlib import Path

import httpx2
import pytest

from harness.storage.s3 import S3
from storekeeper.apps.settings import AppSettings
from storekeeper.configuration import RunDirSettings
from storekeeper.errors import ConfigurationError, StorageError, TablesUnreachableError
from storekeeper.locations import (
    Location,
    RemoteFolder,
    delete_tree,
    entries,
    failure,
    files_below,
    location,
    reaching,
    sha256_of,
    write_in_one_step,
)

LAKE = RemoteFolder("s3://lake/tables")
_LONG = b"0123456789abcdef" * 700_000
"""More than one part of an upload."""


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("/srv/tables", Path("/srv/tables")),
        ("file:///srv/tables", Path("/srv/tables")),
        ("hdfs://namenode:8020/tables/", RemoteFolder("hdfs://namenode:8020/tables")),
        ("s3a://lake/tables", RemoteFolder("s3a://lake/tables")),
    ],
)
def test_a_path_is_local_and_a_uri_is_a_store(text: str, found: object) -> None:
    assert location(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("tables", "neither an absolute path nor a URI"),
        ("ftp://host/tables", "ftp:// is not a store of files: use file, abfss, gs, hdfs, s3, s3a"),
        ("s3://key:secret@lake/tables", "can't hold credentials"),
        ("abfss://box@account/tables?sig=secret", "can't hold credentials"),
    ],
)
def test_another_is_refused_and_no_secret_is_repeated(text: str, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why) as refused:
        location(text)
    assert "secret" not in str(refused.value)


def test_a_folder_of_a_store_is_named_as_a_path_is() -> None:
    commit = LAKE / "rewards" / "_delta_log" / "00000000000000000007.json"
    assert str(commit) == "s3://lake/tables/rewards/_delta_log/00000000000000000007.json"
    assert (commit.name, commit.stem, (LAKE / "rewards").name) == (
        "00000000000000000007.json",
        "00000000000000000007",
        "rewards",
    )
    assert LAKE / "" == LAKE
    assert sorted([LAKE / "b", LAKE / "a"]) == [LAKE / "a", LAKE / "b"]


def test_tables_are_in_the_run_directory_unless_a_setting_names_another_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert AppSettings(run_dir=tmp_path).delta_table("rewards") == tmp_path / "delta" / "rewards"
    monkeypatch.setenv("STOREKEEPER_TABLES_URI", "s3://lake/tables/")
    assert AppSettings(run_dir=tmp_path).delta_table("rewards") == LAKE / "rewards"
    monkeypatch.setenv("STOREKEEPER_TABLES_URI", "tables")
    with pytest.raises(ValueError, match="neither an absolute path nor a URI"):
        RunDirSettings(run_dir=tmp_path)


def test_durable_files_are_in_the_run_directory_unless_a_setting_names_another_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert AppSettings(run_dir=tmp_path).checkpoint_dir("pos") == tmp_path / "checkpoints" / "pos" / "gen-1"
    monkeypatch.setenv("STOREKEEPER_DURABLE_URI", "s3://lake/shop/")
    shop = RemoteFolder("s3://lake/shop")
    found = AppSettings(run_dir=tmp_path)
    assert found.checkpoint_dir("pos") == shop / "checkpoints" / "pos" / "gen-1"
    assert found.tables == shop / "delta"
    monkeypatch.setenv("STOREKEEPER_TABLES_URI", "s3://lake/tables")
    assert AppSettings(run_dir=tmp_path).tables == LAKE


def test_a_file_is_replaced_and_deleted_in_one_step(place: Location) -> None:
    file = place / "app" / "gen-1.claim.json"
    write_in_one_step(file, b"old")
    write_in_one_step(file, _LONG)
    assert (file.read_bytes(), entries(file.parent)) == (_LONG, [file])
    write_in_one_step(file, b"")
    assert (file.read_bytes(), file.exists()) == (b"", True)
    file.unlink(missing_ok=True)
    file.unlink(missing_ok=True)
    assert (file.exists(), entries(file.parent), entries(place / "none")) == (False, [], [])
    with pytest.raises(FileNotFoundError):
        file.read_bytes()


def test_a_folder_is_deleted_with_all_that_is_below(place: Location) -> None:
    for name in ("commits", "offsets"):
        write_in_one_step(place / "gen-1" / name / "0", b"v1")
    write_in_one_step(place / "gen-10", b"another")
    delete_tree(place / "gen-1")
    delete_tree(place / "gen-1")
    assert entries(place) == [place / "gen-10"]


def test_all_files_below_a_folder_are_told_with_their_size_time_and_content(tmp_path: Path) -> None:
    check_files_below(tmp_path / "local")
    check_files_below(RemoteFolder(f"file://{tmp_path}") / "remote")


def test_all_files_below_a_folder_of_a_store_are_told(place: Location) -> None:
    check_files_below(place)


def check_files_below(folder: Location) -> None:
    assert files_below(folder / "none") == {}
    if isinstance(folder, RemoteFolder) and folder.uri.startswith("file://"):
        Path(folder.uri.removeprefix("file://"), "app", "log").mkdir(parents=True)
    write_in_one_step(folder / "app" / "plan", b"old")
    write_in_one_step(folder / "app" / "log" / "0", _LONG)
    before = files_below(folder / "app")
    assert {name: state.size for name, state in before.items()} == {"plan": 3, "log/0": len(_LONG)}
    assert sha256_of(folder / "app" / "log" / "0") == hashlib.sha256(_LONG).hexdigest()
    assert files_below(folder / "app") == before
    with pytest.raises(FileNotFoundError):
        sha256_of(folder / "app" / "none")


def test_a_folder_that_hadoop_has_marked_is_not_in_itself(s3: S3, s3_place: RemoteFolder) -> None:
    name = f"tables/{s3_place.name}/offsets"
    marked = f"http://127.0.0.1:{s3.port}/{s3.bucket}/{name}/"
    assert httpx2.put(marked, content=b"").status_code == 200
    assert entries(s3_place / "offsets") == []
    assert files_below(s3_place / "offsets") == {}
    write_in_one_step(s3_place / "offsets" / "0", b"v1")
    assert entries(s3_place / "offsets") == [s3_place / "offsets" / "0"]
    assert ([*files_below(s3_place / "offsets")], [*files_below(s3_place)]) == (["0"], ["offsets/0"])
    assert entries(s3_place) == [s3_place / "offsets"]


def test_what_a_store_did_not_take_whole_is_not_there(s3: S3, s3_place: RemoteFolder) -> None:
    s3_place.with_name("plan").write_bytes(b"old")
    s3.go_away()
    try:
        with pytest.raises(TablesUnreachableError, match="the store of s3://durable/"):
            s3_place.with_name("plan").write_bytes(_LONG)
        with pytest.raises(TablesUnreachableError):
            s3_place.with_name("plan").unlink(missing_ok=True)
    finally:
        s3.start()
    assert s3_place.with_name("plan").read_bytes() == b"old"


def test_a_store_that_does_not_answer_is_named_on_one_line() -> None:
    text = (
        "Kernel error -> Generic S3 error\n  \x1b[31m↳[0m Error performing GET http://s3:20404\n   Connection refused"
    )
    with pytest.raises(TablesUnreachableError) as raised, reaching(LAKE):
        raise OSError(text)
    assert str(raised.value) == (
        "the store of s3://lake/tables can't be read or written (Kernel error -> Generic S3 error: Connection "
        "refused): check that it runs, its address and the credentials, then repeat; nothing was left half done"
    )


@pytest.mark.parametrize(
    ("place", "error"),
    [
        (Path("/tables"), OSError("Generic local error")),
        (LAKE, FileNotFoundError("Generic S3 error")),
        (LAKE, OSError("Generic S3 error\n404 Not Found")),
        (LAKE, OSError("not a Parquet file")),
    ],
)
def test_what_is_missing_or_damaged_says_nothing_of_its_store(place: Path | RemoteFolder, error: OSError) -> None:
    with pytest.raises(OSError, match=str(error).splitlines()[0]), reaching(place):
        raise error


def test_what_a_library_says_of_a_store_that_is_away_is_the_error_of_the_store() -> None:
    said = ValueError("Commit failed: Generic S3 error: Error performing PUT http://x: Connection refused")
    assert isinstance(failure(location("s3://bucket/tables"), said, "can't be written"), TablesUnreachableError)
    for place, error in ((location("s3://bucket/tables"), ValueError("conflict")), (location("/tables"), said)):
        assert type(failure(place, error, "can't be written")) is StorageError


def test_links_to_folders_are_followed_once(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "file").write_bytes(b"1")
    (tmp_path / "one" / "round").symlink_to(tmp_path)
    (tmp_path / "other").symlink_to(tmp_path / "one")
    assert len(files_below(tmp_path)) == 1
    assert [*files_below(tmp_path / "other")] == ["file"]
