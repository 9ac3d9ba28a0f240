"""Locations without a store; `tests/integration/storage` has those with HDFS and S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from spark_apps.settings import AppSettings
from state.configuration import RunDirSettings
from state.errors import ConfigurationError, TablesUnreachableError
from state.locations import RemoteFolder, location, reaching

LAKE = RemoteFolder("s3://lake/tables")


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
        ("tables", "no absolute path and no URI"),
        ("ftp://host/tables", "ftp:// is no store of tables: use file, abfss, gs, hdfs, s3, s3a"),
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
    with pytest.raises(ValueError, match="no absolute path and no URI"):
        RunDirSettings(run_dir=tmp_path)


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
