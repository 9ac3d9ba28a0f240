"""A table proves to show what its snapshot wrote, or it fails: attacked in every way, on real Delta tables."""

from __future__ import annotations

import random
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import Location
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.delta_log import verified_version
from storekeeper.snapshots.proof import check_proven, prove
from storekeeper.snapshots.sql import query
from storekeeper.snapshots.table_upkeep import keep_up
from tests.snapshot_tables import Row, manifest_of, write_snapshot
from tests.snapshots.attacks import ATTACKS, Attack, data_file, deleted

FIELDS = (
    ValueField("Word", "string", nullable=True),
    ValueField("Amount", "decimal(18,4)"),
    ValueField("Count", "bigint"),
    ValueField("Ratio", "double"),
    ValueField("At", "timestamp"),
    ValueField("Good", "boolean", nullable=True),
)
LATER_MS = 10**14


def rows(count: int) -> list[Row]:
    """Rows of two partitions; some lack what is nullable."""
    return [
        Row(
            number % 2,
            number // 2,
            1_700_000_000_000 + number,
            b"card-%06d" % number,
            b'{"Amount":%d.%04d,"Count":%d,"Ratio":%s,"At":%d%s}'
            % (
                *(number, number, number, b"0.0" if number % 9 == 0 else b"%d.5" % number, 1_600_000_000_000 + number),
                b',"Word":"word %d","Good":true' % number if number % 3 else b"",
            ),
        )
        for number in range(count)
    ]


def flaws(path: Location) -> tuple[str, ...]:
    """What verification says of the table."""
    try:
        verified = verified_version(path)
        assert verified is not None
        return prove(path, verified, StoreValues(FIELDS)).flaws
    except SnapshotDamagedError as error:
        return (str(error),)


def check(path: Path) -> None:
    """What each reader of the table does first."""
    verified = verified_version(path)
    assert verified is not None
    check_proven(path, verified, StoreValues(FIELDS))


def shown(path: Path) -> object:
    """What SQL shows, and what pyarrow reads, of all columns."""
    arrow = DeltaTable(path).to_pyarrow_table().sort_by("_key")
    return query(path.parent, f"SELECT * FROM {path.name} ORDER BY _key"), arrow  # noqa: S608


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """A snapshot of three hundred rows behind an earlier one, in two files."""
    path = tmp_path / "words"
    write_snapshot(path, rows(10), FIELDS)
    write_snapshot(path, rows(200), FIELDS)
    added = rows(300)[200:]
    write_snapshot(path, added, FIELDS, mode="append", manifest=manifest_of(rows(300)))
    return path


def test_an_untouched_table_is_proven(table: Path) -> None:
    verified = verified_version(table)
    assert verified is not None
    assert (verified.version, verified.manifest.delta_version) == (2, 2)
    found = prove(table, verified, StoreValues(FIELDS))
    assert found.flaws == ()
    assert found.partitions is not None
    assert {number: content.rows for number, content in found.partitions.items()} == {0: 150, 1: 150}


def test_maintenance_leaves_a_table_proven(table: Path) -> None:
    before = shown(table)
    for number in range(8):
        path_rows = rows(301 + number)
        write_snapshot(table, path_rows[-1:], FIELDS, mode="append", manifest=manifest_of(path_rows))
    done = keep_up(table, [], now_ms=LATER_MS, history_ms=0)
    assert done is not None
    assert done.files == 1, "small files were joined"
    assert flaws(table) == ()
    DeltaTable(table).optimize.z_order(["_key"])
    DeltaTable(table).create_checkpoint()
    DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    DeltaTable(table).alter.set_table_properties({"delta.logRetentionDuration": "interval 90 days"})
    verified = verified_version(table)
    assert verified is not None
    assert verified.version > verified.manifest.delta_version == 10
    assert flaws(table) == ()
    assert shown(table) != before


@pytest.mark.parametrize("attack", ATTACKS.values(), ids=ATTACKS.keys())
def test_an_attack_is_found_and_the_way_on_is_told(table: Path, attack: Attack) -> None:
    attack(table)
    found = flaws(table)
    assert found
    assert "word" not in " ".join(found).replace("words", ""), "no value of a row is told"
    assert "card-" not in " ".join(found), "no key is told"
    with pytest.raises(SnapshotDamagedError, match=r"^table words .*snapshot restore words.*move .* away"):
        check(table)


@pytest.mark.parametrize(
    "attack",
    [
        "UPDATE of one row",
        "DELETE of a partition",
        "INSERT",
        "the log cut to nothing",
        "a torn log",
        "a lost commit",
        "a lost log",
        "a checkpoint ahead of the log",
        "an added column",
        "a dropped column",
        "a column dropped in the log alone",
        "another protocol",
    ],
)
def test_what_the_log_tells_is_refused_before_any_row_is_read(table: Path, attack: str) -> None:
    ATTACKS[attack](table)
    with pytest.raises(SnapshotDamagedError):
        verified_version(table)


def test_comments_of_columns_leave_a_table_proven_and_other_metadata_does_not(table: Path) -> None:
    DeltaTable(table).alter.set_column_metadata("Count", {"comment": "How many there are."})
    assert flaws(table) == ()
    DeltaTable(table).alter.set_column_metadata("Count", {"unit": "pieces"})
    assert "has other columns since its last snapshot" in flaws(table)[0]


def test_what_differs_is_told_by_column_partition_and_masked_keys(table: Path) -> None:
    ATTACKS["a typed column edited in the file"](table)
    assert flaws(table) == ("column Amount isn't what the row's value says in 1 rows, first •••••••••00 (11 bytes)",)


def test_a_missing_key_is_told_as_one(table: Path) -> None:
    ATTACKS["a value without a key"](table)
    assert "column _key is null in 1 rows" in flaws(table)


def test_rows_that_went_are_counted(table: Path) -> None:
    ATTACKS["DELETE with a copied manifest"](table)
    assert flaws(table) == (
        "it holds 150 rows, and its manifest says 300",
        "partition 1: its 0 rows are not those of the manifest",
    )


def test_a_foreign_commit_is_named(table: Path) -> None:
    deleted("_partition = 1")(table)
    (told,) = flaws(table)
    assert told.startswith(
        "table words was changed by something else: version 3 (DELETE) adds 1 and removes 2 files with other rows; "
        "its last snapshot is version 2. Go back to its last snapshot with `storekeeper snapshot restore words`"
    )


def test_a_damaged_pointer_to_the_checkpoint_changes_nothing_or_fails(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    before = shown(table)
    pointer = table / "_delta_log" / "_last_checkpoint"
    for damage in (b"", b"{", pointer.read_bytes().replace(b"2", b"1", 1)):
        pointer.write_bytes(damage)
        assert flaws(table) or shown(table) == before


def test_no_flipped_bit_passes_that_changes_what_is_read(table: Path) -> None:
    before = shown(table)
    file = data_file(table)
    content = file.read_bytes()
    chance = random.Random(4711)
    silent = []
    passed = 0
    for _ in range(200):
        place, bit = chance.randrange(len(content)), chance.randrange(8)
        file.write_bytes(content[:place] + bytes([content[place] ^ (1 << bit)]) + content[place + 1 :])
        if not flaws(table):
            passed += 1
            if shown(table) != before:
                silent.append((place, bit))
    assert silent == []
    assert passed < 100, "most flips change what is read"


def test_a_table_without_a_snapshot_is_none(tmp_path: Path) -> None:
    assert verified_version(tmp_path / "nothing") is None
    write_deltalake(tmp_path / "other", pa.table({"a": [1]}))
    assert verified_version(tmp_path / "other") is None
