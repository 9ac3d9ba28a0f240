from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest

from storekeeper.changelog.log_record import LogRecord
from storekeeper.client.credentials import Credentials
from storekeeper.errors import StoreUnavailableError
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.delta_log import VerifiedVersion
from storekeeper.snapshots.proof import prove
from storekeeper.stores.row_digest import BUCKETS, bucket_of, digest, entry_hash, stored_row_hash, to_hex
from storekeeper.verification.copies import Copy, Fold, Held, Verification, of_stored_row, of_value, verify_copies
from storekeeper.verification.node_copies import NodeCopies
from storekeeper.verification.snapshot_copies import SnapshotCopies
from tests.snapshot_tables import Row, manifest_of, rows_of, write_snapshot

Rows = dict[bytes, bytes]
HEADERS = (("schema-version", b"1"),)


class FakeChangelog:
    """One partition in memory."""

    partitions = range(1)

    def __init__(self, records: Iterable[tuple[bytes, bytes | None]]) -> None:
        self.records = [LogRecord(offset, 0, key, value, HEADERS) for offset, (key, value) in enumerate(records)]

    def first(self, partition: int) -> int:
        assert partition == 0
        return 0

    def committed(self, partition: int) -> tuple[int, int]:
        return 0, self.stable_end(partition)

    def stable_end(self, partition: int) -> int:
        assert partition == 0
        return self.records[-1].offset + 1

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


def rows_in(log: Sequence[tuple[bytes, bytes | None]]) -> list[Row]:
    """The rows of a snapshot of all of it."""
    newest = {key: (offset, value) for offset, (key, value) in enumerate(log)}
    return [Row(0, offset, 0, key, value) for key, (offset, value) in newest.items() if value is not None]


def copy_of(rows: Rows, offset: int, holder: str = "snapshot 3") -> Copy:
    hashes = {key: entry_hash(key, value) for key, value in rows.items()}
    return Copy(holder, offset, len(rows), digest(rows.items()), lambda _: [Held(offset, hashes)])


def verified(log: Sequence[tuple[bytes, bytes | None]], *copies: Copy) -> Verification:
    return verify_copies(FakeChangelog(log), lambda _: copies)  # type: ignore[arg-type]


def test_copies_at_different_places_in_the_changelog_all_agree_with_it() -> None:
    log = log_of(100)
    places = (0, 1, 57, 150, len(log))
    found = verified(log, *(copy_of(folded(log[:place]), place, f"node {place}") for place in places))
    assert (found.differing, found.reasons) == (0, [])
    assert (found.rows, len(found.compared)) == (90, len(places))


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        (b"key-0001", None, "missing ••••••01 (8 bytes)"),
        (b"key-0000", b"a zombie", "surplus ••••••00 (8 bytes)"),
        (b"key-0002", b"another value", "different ••••••02 (8 bytes)"),
    ],
)
def test_one_wrong_row_is_found_and_named(key: bytes, value: bytes | None, sentence: str) -> None:
    log = log_of(100)
    rows = folded([*log, (key, value)])
    assert verified(log, copy_of(rows, len(log))).reasons == [f"snapshot 3, partition 0: {sentence}"]


def test_what_compaction_made_unknowable_is_no_difference() -> None:
    log: list[tuple[bytes, bytes | None]] = [(b"a", b"old"), (b"b", b"1"), (b"a", b"new")]
    compacted = FakeChangelog(log)
    del compacted.records[0]
    copy = copy_of({b"a": b"old", b"b": b"1"}, 2)
    found = verify_copies(compacted, lambda _: [copy])  # type: ignore[arg-type]
    assert (found.differing, found.superseded) == (0, 1)


def test_a_row_whose_deletion_was_missed_is_not_excused_by_a_later_record() -> None:
    log: list[tuple[bytes, bytes | None]] = [(b"a", b"1"), (b"b", b"2"), (b"a", None), (b"a", b"3")]
    copy = copy_of({b"a": b"1", b"b": b"2"}, 3)
    found = verified(log, copy)
    assert (found.superseded, found.reasons) == (0, ["snapshot 3, partition 0: surplus • (1 bytes)"])
    compacted = FakeChangelog(log)
    del compacted.records[0]
    found = verify_copies(compacted, lambda _: [copy])  # type: ignore[arg-type]
    assert (found.superseded, len(found.reasons)) == (0, 1), "the tombstone says that there is no row"


def test_a_row_is_excused_only_if_the_log_lacks_the_record_that_it_names() -> None:
    log = FakeChangelog([(b"a", b"1"), (b"b", b"2"), (b"a", b"3")])
    del log.records[0]
    for place, superseded in ((0, 1), (1, 0), (2, 0), (9, 0)):
        hashes = {key: entry_hash(key, value) for key, value in ((b"a", b"1"), (b"b", b"2"))}
        held = Held(2, hashes, places={b"a": place, b"b": 1})
        copy = Copy("snapshot 3", 2, 2, sum(hashes.values()), lambda _, held=held: [held])  # type: ignore[misc]
        found = verify_copies(log, lambda _, copy=copy: [copy])  # type: ignore[arg-type, misc]
        assert (found.superseded, len(found.reasons)) == (superseded, 1 - superseded), place


def test_the_differences_of_each_copy_and_partition_are_named_and_the_others_counted() -> None:
    log = log_of(100)
    one = copy_of(folded([*log, (b"key-0002", b"another")]), len(log), "node b")
    found = verified(log, copy_of({}, len(log)), one)
    assert found.differing == 91
    assert [reason for reason in found.reasons if "snapshot 3" in reason][-1] == "snapshot 3, partition 0: and 87 more"
    assert found.reasons[-1] == "node b, partition 0: different ••••••02 (8 bytes)"


@pytest.mark.parametrize(("timestamp_ms", "version"), [(7, 1), (0, 2)])
def test_a_nodes_row_of_another_time_or_schema_version_is_found(timestamp_ms: int, version: int) -> None:
    for sentence, right in (((0, 1), True), ((timestamp_ms, version), False)):
        hashes = {b"a": stored_row_hash(b"a", b"1", *sentence)}
        copy = Copy("node a", 1, 1, hashes[b"a"], lambda _, hashes=hashes: [Held(1, hashes)], of_stored_row)  # type: ignore[misc]
        assert (verified([(b"a", b"1")], copy).reasons == []) is right


def test_a_snapshot_is_compared_by_partition_and_its_wrong_rows_are_named(tmp_path: Path) -> None:
    log = log_of(100)
    rows = [*rows_in(log), *rows_of({b"elsewhere": b"1"}, partition=1)]
    manifest = manifest_of(rows, changelog_offsets={0: len(log), 1: 1})
    write_snapshot(tmp_path, rows, manifest=manifest)
    copies = SnapshotCopies(tmp_path, prove(tmp_path, VerifiedVersion(0, manifest), StoreValues(())))
    assert copies.flaws == ()
    found = verified(log, *copies.of_partition(0))
    assert (found.reasons, found.superseded, found.compared) == ([], 0, {"snapshot 0": 1})
    found = verified([*log[:-1], (b"other", None)], *copies.of_partition(0))
    assert found.reasons == ["snapshot 0, partition 0: missing ••••••90 (8 bytes)"]


def test_a_copy_that_holds_more_than_the_changelog_is_told_and_not_waited_for() -> None:
    log = log_of(100)
    found = verified(log[:-3], copy_of(folded(log), len(log)))
    ends = f"holds the changelog up to {len(log)}, which ends at {len(log) - 3}: it has lost records"
    assert (found.reasons, found.compared) == ([f"snapshot 3, partition 0: {ends}"], {})


def test_a_tampered_snapshot_is_told_by_its_flaws_and_by_its_keys(tmp_path: Path) -> None:
    log = log_of(100)
    rows = rows_in(log)
    manifest = manifest_of(rows, changelog_offsets={0: len(log)})
    write_snapshot(tmp_path, [*rows[1:], rows[-1]._replace(offset=7)], manifest=manifest)
    copies = SnapshotCopies(tmp_path, prove(tmp_path, VerifiedVersion(0, manifest), StoreValues(())))
    table = f"table {tmp_path.name}, version 0"
    assert copies.flaws == (f"{table}: partition 0: its 90 rows are not those of the manifest",)
    assert verified(log, *copies.of_partition(0)).reasons == [
        "snapshot 0, partition 0: missing ••••••01 (8 bytes)",
        "snapshot 0, partition 0: different ••••••99 (8 bytes)",
    ]


def test_a_key_that_a_snapshot_has_twice_is_found_though_its_manifest_counts_both(tmp_path: Path) -> None:
    log: list[tuple[bytes, bytes | None]] = [(b"key-1", b"old"), (b"key-2", b"2"), (b"key-1", b"new")]
    right = rows_in(log)
    for number, more in enumerate((Row(0, 0, 0, b"key-1", b"old"), right[0])):
        rows = [more, *right]
        manifest = manifest_of(rows, changelog_offsets={0: len(log)})
        write_snapshot(tmp_path / str(number), rows, manifest=manifest)
        proof = prove(tmp_path / str(number), VerifiedVersion(0, manifest), StoreValues(()))
        copies = SnapshotCopies(tmp_path / str(number), proof)
        assert copies.flaws == ()
        assert verified(log, *copies.of_partition(0)).reasons == ["snapshot 0, partition 0: different ••••• (5 bytes)"]


class FakeNode:
    """A node that holds `rows` and moves on by one more record each time that it is asked."""

    def __init__(self, log: Sequence[tuple[bytes, bytes | None]], wrong: Rows) -> None:
        self.log, self.wrong, self.offset = log, wrong, 150
        self.set_aside_ms: int | None = None

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
            buckets[bucket_of(key)] += stored_row_hash(key, value, 0, 1)
        entries = [
            (base64.urlsafe_b64encode(key).decode().rstrip("="), to_hex(stored_row_hash(key, value, 0, 1)))
            for key, value in rows.items()
            if bucket_of(key) in wanted
        ]
        found: dict[str, Any] = {
            "topic": "s-log",
            "offset": self.offset,
            "rows": len(rows),
            "set_aside_ms": self.set_aside_ms,
            "digest": to_hex(sum(buckets) % (1 << 64)),
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


def test_a_wrong_row_is_found_behind_many_that_can_not_be_compared() -> None:
    keys = [b"key-%04d" % number for number in range(1000)]
    worst = max(keys, key=bucket_of)
    log: list[tuple[bytes, bytes | None]] = [(key, b"old") for key in keys]
    log += [(key, b"new") for key in keys if bucket_of(key) < bucket_of(worst)]
    compacted = FakeChangelog(log)
    newest = {key: offset for offset, (key, _) in enumerate(log)}
    compacted.records = [record for record in compacted.records if newest[record.key or b""] == record.offset]
    node = FakeNode(log, {worst: b"flipped"})
    node.offset = len(keys)
    with NodeCopies(["http://a"], Credentials(), transport=httpx2.MockTransport(node.answer)) as nodes:
        copies = nodes.of_partition(nodes.members(), "s", "s-log", 0)
        found = verify_copies(compacted, lambda _: copies)  # type: ignore[arg-type]
    assert found.superseded > 100
    assert found.wrong == [("node a", 0)]


def test_a_replica_that_a_node_has_healed_is_told() -> None:
    node = FakeNode(log_of(100), {})
    node.set_aside_ms = 1_700_000_000_000
    with NodeCopies(["http://a"], Credentials(), transport=httpx2.MockTransport(node.answer)) as nodes:
        nodes.of_partition(nodes.members(), "s", "s-log", 0)
    sentence = "node a, partition 0: damaged rows were set aside at 2023-11-14T22:13:20+00:00, and restored"
    assert nodes.notices == [sentence]


class RestoringNode(FakeNode):
    """One that restores its rows while it is asked for them some times."""

    asked_in_vain = 3

    def answer(self, request: httpx2.Request) -> httpx2.Response:
        if request.url.path == "/state/cluster" or self.asked_in_vain == 0:
            return super().answer(request)
        self.asked_in_vain -= 1
        problem = {"detail": "replica s/0 has not caught up with its changelog yet: ask again later"}
        return httpx2.Response(503, json=problem, headers={"retry-after": "1"})


def test_a_node_that_restores_its_rows_is_waited_for() -> None:
    log, waits = log_of(100), list[float]()
    node = RestoringNode(log, {})
    transport = httpx2.MockTransport(node.answer)
    with NodeCopies(["http://a"], Credentials(), transport=transport, wait=waits.append) as nodes:
        members = nodes.members()
        found = verified(log, *nodes.of_partition(members, "s", "s-log", 0))
        assert (found.reasons, found.compared, waits) == ([], {"node a": 1}, [1.0] * 3)
        node.asked_in_vain = 1 << 30
        with pytest.raises(StoreUnavailableError, match="its rows within 60 s: replica s/0 has not"):
            nodes.of_partition(members, "s", "s-log", 0)
        with pytest.raises(StoreUnavailableError, match="within 60 s"):
            nodes.of_partition(members, "s", "s-log", 0)
    assert sum(waits) == 60, "in all, whatever the number of partitions"


def test_a_node_that_does_not_answer_is_no_proof() -> None:
    def down(request: httpx2.Request) -> httpx2.Response:
        raise httpx2.ConnectError("down", request=request)

    with (
        NodeCopies(["http://a"], Credentials(), transport=httpx2.MockTransport(down)) as nodes,
        pytest.raises(StoreUnavailableError, match="no query node answers"),
    ):
        nodes.members()


def test_a_fold_forgets_what_was_deleted() -> None:
    fold = Fold(of_value)
    fold.take([LogRecord(0, 0, b"a", b"1"), LogRecord(1, 0, b"a", b"2"), LogRecord(2, 0, None, b"x")])
    assert fold.digest(of_value) == entry_hash(b"a", b"2")
    fold.take([LogRecord(3, 0, b"a", None)])
    assert (fold.digest(of_value), fold.hashes(of_value), fold.rows) == (0, {}, 0)
