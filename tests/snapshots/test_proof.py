"""A table proves to show what its snapshot wrote, or it fails: attacked in every way, on real Delta tables.

Where a seal is asked as well, test_seal.py has it.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from deltalake import DeltaTable

from storekeeper.errors import SnapshotDamagedError
from storekeeper.locations import Location
from storekeeper.serdes.value_field import ValueField
from storekeeper.snapshots.columns import StoreValues
from storekeeper.snapshots.proof import check_proven, prove
from storekeeper.snapshots.sql import query
from storekeeper.snapshots.table_upkeep import keep_up
from tests.snapshot_tables import Row, manifest_of, sealed_at, write_snapshot
from tests.snapshots.attacks import ATTACKS, IN_THE_LOG, Attack, data_file

FIELDS = (
    ValueField("Word", "string", nullable=True),
    ValueField("Amount", "decimal(18,4)"),
    ValueField("Count", "bigint"),
    ValueField("Ratio", "double"),
    ValueField("At", "timestamp"),
    ValueField("Good", "boolean", nullable=True),
)
LATER_MS = 10**14
IN_THE_ROWS = {name: attack for name, attack in ATTACKS.items() if name not in IN_THE_LOG}


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
    found: tuple[str, ...] = ()
    try:
        sealed_at(path).current(whole=True)
    except SnapshotDamagedError as error:
        found = (str(error),)
    return (*found, *unsealed_flaws(path))


def unsealed_flaws(path: Location) -> tuple[str, ...]:
    """What its rows and its manifest say, whatever was sealed."""
    try:
        shown = sealed_at(path).shown()
        assert shown is not None
        return prove(path, shown, StoreValues(FIELDS)).flaws
    except SnapshotDamagedError as error:
        return (str(error),)


def check(path: Path) -> None:
    """What a writer does whose predecessor died."""
    shown = sealed_at(path).shown()
    assert shown is not None
    check_proven(path, shown, StoreValues(FIELDS))


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
    verified = sealed_at(table).shown()
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
    done = keep_up(sealed_at(table), [], now_ms=LATER_MS, history_ms=0)
    assert done is not None
    assert done.files == 1, "small files were joined"
    assert flaws(table) == ()
    with sealed_at(table).writing():
        DeltaTable(table).optimize.z_order(["_key"])
        DeltaTable(table).create_checkpoint()
        DeltaTable(table).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
        DeltaTable(table).alter.set_column_metadata("Count", {"comment": "How many there are."})
    verified = sealed_at(table).shown()
    assert verified is not None
    assert verified.version > verified.manifest.delta_version == 10
    assert flaws(table) == ()
    assert shown(table) != before


@pytest.mark.parametrize("attack", IN_THE_ROWS.values(), ids=IN_THE_ROWS.keys())
def test_other_rows_are_found_without_a_seal_and_the_way_on_is_told(table: Path, attack: Attack) -> None:
    attack(table)
    found = unsealed_flaws(table)
    assert found
    assert "word" not in " ".join(found).replace("words", ""), "no value of a row is told"
    assert "card-" not in " ".join(found), "no key is told"
    with pytest.raises(SnapshotDamagedError, match=r"^table words .*snapshot restore words.*move .* away"):
        check(table)


def test_what_differs_is_told_by_column_partition_and_masked_keys(table: Path) -> None:
    ATTACKS["a typed column edited in the file"](table)
    assert unsealed_flaws(table) == (
        "column Amount isn't what the row's value says in 1 rows, first •••••••••00 (11 bytes)",
    )


def test_a_missing_key_is_told_as_one(table: Path) -> None:
    ATTACKS["a value without a key"](table)
    assert "column _key is null in 1 rows" in flaws(table)


def test_rows_that_went_are_counted(table: Path) -> None:
    ATTACKS["DELETE with a copied manifest"](table)
    assert unsealed_flaws(table) == (
        "it holds 150 rows, and its manifest says 300",
        "partition 1: its 0 rows are not those of the manifest",
    )


def test_a_damaged_pointer_to_the_checkpoint_changes_nothing_or_fails(table: Path) -> None:
    DeltaTable(table).create_checkpoint()
    before = shown(table)
    pointer = table / "_delta_log" / "_last_checkpoint"
    for damage in (b"", b"{", pointer.read_bytes().replace(b"2", b"1", 1)):
        pointer.write_bytes(damage)
        assert unsealed_flaws(table) or shown(table) == before


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
        if not unsealed_flaws(table):
            passed += 1
            if shown(table) != before:
                silent.append((place, bit))
    assert silent == []
    assert passed < 100, "most flips change what is read"
