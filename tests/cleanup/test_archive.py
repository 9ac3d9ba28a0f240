from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path

import httpx2
import pytest

from harness.storage.s3 import S3
from storekeeper.changelog.log_record import LogRecord
from storekeeper.cleanup.cleanup import Pace
from storekeeper.cleanup.folder import Archive
from storekeeper.clock import ManualClock
from storekeeper.errors import StorageError
from storekeeper.locations import Location, RemoteFolder, entries, write_in_one_step
from storekeeper.verification.check_verdict import CheckVerdict, last_verdict, put_verdict, verdict_folder

_KEEP_VERSIONS = b"<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>"


def test_rows_are_read_as_they_were_put_and_deleted_when_they_are_forgotten(place: Location) -> None:
    records = [LogRecord(number, 5, b"\x00k%d" % number, b"v", [("h", b"\xff"), ("none", None)]) for number in range(3)]
    archive = Archive(place)
    archive.put(2, records)
    archive.put(3, [])
    assert [*archive.rows(2)] == records
    assert (archive.keys(3), archive.exists(3), archive.exists(4)) == (set(), True, False)
    with pytest.raises(StorageError, match="has no archived rows"):
        archive.keys(4)
    write_in_one_step(place / "archive-00004.parquet", b"torn")
    with pytest.raises(StorageError, match="restore it from a backup"):
        archive.keys(4)
    for draft in ("archive-00005.parquet.123.new", ".archive-00005.parquet.tmp.1"):
        write_in_one_step(place / draft, b"of a crash")
    write_in_one_step(place / "plan.json", b"stays")
    assert archive.forget() == 5
    assert entries(place) == [place / "plan.json"]


def test_a_local_archive_is_for_its_owner_alone(tmp_path: Path) -> None:
    Archive(tmp_path).put(2, [])
    assert {stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()} == {0o600}


@pytest.mark.usefixtures("s3_place")
def test_a_bucket_with_versions_keeps_what_was_forgotten(s3: S3) -> None:
    """The documents say so, and how to end it."""
    of_bucket = f"http://127.0.0.1:{s3.port}/versions"
    for request, content in (("", b""), ("?versioning", _KEEP_VERSIONS)):
        assert httpx2.put(of_bucket + request, content=content).status_code == 200
    archive = Archive(RemoteFolder("s3://versions/rewards"))
    archive.put(0, [LogRecord(1, 5, b"k", b"v", [])])
    assert archive.forget() == 1
    assert not archive.exists(0)
    kept = re.findall(r"<Key>rewards/([^<]*)</Key>", httpx2.get(f"{of_bucket}?versions").text)
    assert set(kept) == {"archive-00000.parquet"}


def test_rows_are_on_disk_before_the_caller_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The caller deletes them from the changelog next."""

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    archive = Archive(tmp_path)
    with pytest.raises(OSError, match="No space left"):
        archive.put(0, [LogRecord(1, 5, b"k", b"v", [])])
    assert not archive.exists(0)


def test_pieces_wait_until_those_before_have_had_their_time() -> None:
    clock = ManualClock()
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(round(seconds * 1000))

    pace = Pace(100, clock, wait)
    for _ in range(3):
        pace.take(50)
    clock.advance(10_000)
    pace.take(1000)
    pace.take(1)
    assert waits == [0.5, 0.5, 10.0]


def test_the_newest_verdict_is_found_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    folder = verdict_folder(tmp_path, "verify", "s")
    assert last_verdict(folder) is None
    for at in range(205):
        put_verdict(tmp_path, CheckVerdict("verify", "s", at != 204, ("why",), at, {"rows": 1}))
    assert last_verdict(folder) == CheckVerdict("verify", "s", False, ("why",), 204, {"rows": 1})
    assert len(list(folder.iterdir())) == 200
    (folder / "999999999999999.json").write_text("[]")
    with pytest.raises(ValueError, match="not a verdict"):
        last_verdict(folder)
