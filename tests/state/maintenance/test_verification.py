from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from state.changelog.position import Position
from state.client.credentials import Credentials
from state.errors import StoreUnavailableError
from state.maintenance.copies import Copy, Fold
from state.maintenance.log_record import LogRecord
from state.maintenance.node_copies import NodeCopies
from state.maintenance.verification import Verification, snapshot_copy, verify_copies
from state.query.digests import BUCKETS, bucket_of
from state.snapshots.digest import digest, entry_hash, to_hex
from state.snapshots.loaded import newest_snapshot
from state.snapshots.manifest import SnapshotManifest

Rows = dict[bytes, bytes]


class FakeChangelog:
    """One partition in memory."""

    partitions = range(1)

    def __init__(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        self.records = [LogRecord(offset, 0, key, value) for offset, (key, value) in enumerate(records)]

    def bounds(self, partition: int) -> tuple[int, int]:
        assert partition == 0
        return 0, self.records[-1].offset + 1

    def scan(self, partition: int, start: int, end: int) -> Iterator[LogRecord]:
        assert partition == 0
        return (record for record in self.records if start <= record.offset < end)


def log_of(count: int) -> list[tuple[bytes, bytes | None]]:
    """Twice `count` rows, every tenth of them deleted."""
    written: list[tuple[bytes, bytes | None]] = [(b"key-%04d" % (n % count), b"v%d" % n) for n in range(2 * count)]
    return [*written, *((b"key-%04d" % n, None) for n in range(0, count, 10))]


def folded(records: Iterable[tuple[bytes, bytes | None]]) -> Rows:
    rows: Rows = {}
    for key, value in records:
        rows.pop(key, None)
        if value is not None:
            rows[key] = value
    return rows


def copy_of(rows: Rows, offset: int, holder: str = "snapshot 3") -> Copy:
    hashes = {key: entry_hash(key, value) for key, value in rows.items()}
    return Copy(holder, offset, len(rows), digest(rows.items()), lambda _: (offset, hashes, lambda _: True))


def verified(log: Sequence[tuple[bytes, bytes | None]], *copies: Copy) -> Verification:
    return verify_copies(FakeChangelog(log), lambda _: copies)  # type: ignore[arg-type]


def test_copies_at_different_places_in_the_changelog_all_agree_with_it() -> None:
    log = log_of(100)
    places = (0, 1, 57, 150, len(log))
    found = verified(log, *(copy_of(folded(log[:place]), place, f"node {place}") for place in places))
    assert (found.differing, found.reasons) == (0, ())
    assert (found.rows, len(found.compared)) == (90, len(places))


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (b"key-0001", None, "missing ••••••01 (8 bytes)"),
        (b"key-0000", b"a zombie", "surplus ••••••00 (8 bytes)"),
        (b"key-0002", b"another value", "different ••••••02 (8 bytes)"),
    ],
)
def test_one_wrong_row_is_found_and_named(key: bytes, value: bytes | None, told: str) -> None:
    log = log_of(100)
    rows = folded([*log, (key, value)])
    assert verified(log, copy_of(rows, len(log))).reasons == (f"snapshot 3, partition 0: {told}",)


def test_what_compaction_made_unknowable_is_no_difference() -> None:
    log: list[tuple[bytes, bytes | None]] = [(b"a", b"old"), (b"b", b"1"), (b"a", b"new")]
    compacted = FakeChangelog(log)
    del compacted.records[0]
    copy = copy_of({b"a": b"old", b"b": b"1"}, 2)
    assert verify_copies(compacted, lambda _: [copy]).differing == 0  # type: ignore[arg-type]


def test_very_many_differences_are_counted_and_some_are_named() -> None:
    log = log_of(100)
    found = verified(log, copy_of({}, len(log)))
    assert (found.differing, len(found.shown)) == (90, 20)
    assert found.reasons[-1] == "and 70 more"


def manifest_of(rows: Rows, offset: int) -> SnapshotManifest:
    return SnapshotManifest(
        *("s", "app", 1, 1, "s-log", {0: offset}, Position(), len(rows), {0: digest(rows.items())}, "test", 0)
    )


def test_a_snapshot_is_read_from_its_table_by_partition(tmp_path: Path) -> None:
    log = log_of(100)
    rows = folded(log)
    table = pa.table(
        {
            "_partition": pa.array([0] * len(rows) + [1], pa.int32()),
            "_key": pa.array([*rows, b"elsewhere"], pa.binary()),
            "_value": pa.array([*rows.values(), b"1"], pa.binary()),
        }
    )
    metadata = {"userMetadata": manifest_of(rows, len(log)).to_json()}
    write_deltalake(tmp_path, table, commit_properties=CommitProperties(custom_metadata=metadata))
    manifest = newest_snapshot(tmp_path)
    assert manifest is not None
    assert verified(log, snapshot_copy(tmp_path, manifest, 0)).reasons == ()
    assert verified(log[:-1], snapshot_copy(tmp_path, manifest, 0)).differing == 1


class FakeNode:
    """A node that holds `rows` and moves on by one more record each time that it is asked."""

    def __init__(self, log: Sequence[tuple[bytes, bytes | None]], wrong: Rows) -> None:
        self.log, self.wrong, self.offset = log, wrong, 150

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/state/cluster":
            members = [{"name": "a", "address": "http://a"}, {"name": "b", "address": "http://b"}]
            return httpx2.Response(200, json={"members": members})
        if request.url.host == "b":
            return httpx2.Response(421)
        rows = folded(self.log[: self.offset]) | self.wrong
        wanted = {int(number) for number in request.url.params.get_list("bucket")}
        buckets = [0] * BUCKETS
        for key, value in rows.items():
            buckets[bucket_of(key)] += entry_hash(key, value)
        entries = [
            (base64.urlsafe_b64encode(key).decode().rstrip("="), to_hex(entry_hash(key, value)))
            for key, value in rows.items()
            if bucket_of(key) in wanted
        ]
        found: dict[str, Any] = {
            "topic": "s-log",
            "offset": self.offset,
            "rows": len(rows),
            "digest": to_hex(digest(rows.items())),
            "buckets": [to_hex(number % (1 << 64)) for number in buckets],
            "entries": entries,
        }
        self.offset += 1
        return httpx2.Response(200, json=found)


@pytest.mark.parametrize(("wrong", "reasons"), [({}, 0), ({b"key-0003": b"flipped"}, 1), ({b"zombie": b"1"}, 1)])
def test_a_node_is_compared_where_it_stands_and_its_wrong_rows_are_found_though_it_moves(
    wrong: Rows, reasons: int
) -> None:
    log = log_of(100)
    node = FakeNode(log, wrong)
    with NodeCopies(["http://a"], Credentials(), transport=httpx2.MockTransport(node.answer)) as nodes:
        members = nodes.members()
        assert members == {"a": "http://a", "b": "http://b"}
        copies = nodes.of_partition(members, "s", "s-log", 0)
        found = verified(log, *copies)
        assert nodes.of_partition(members, "s", "another-log", 0) == []
    assert len(found.reasons) == reasons
    assert found.compared == {"node a": 1}


def test_a_node_that_does_not_answer_is_no_proof() -> None:
    def down(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("down", request=request)

    with (
        NodeCopies(["http://a"], Credentials(), transport=httpx2.MockTransport(down)) as nodes,
        pytest.raises(StoreUnavailableError, match="no query node answers"),
    ):
        nodes.members()


def test_a_fold_forgets_what_was_deleted() -> None:
    fold = Fold()
    fold.take([LogRecord(0, 0, b"a", b"1"), LogRecord(1, 0, b"a", b"2"), LogRecord(2, 0, None, b"x")])
    assert fold.digest == entry_hash(b"a", b"2")
    fold.take([LogRecord(3, 0, b"a", None)])
    assert (fold.digest, fold.hashes) == (0, {})
